#!/usr/bin/env python3
"""Golden numbers of policies/training from PyTorch's autograd and optimizer, in float64.

Writes training/{head_losses,ppo,adamw,gae,groups}.json beside this file. The formulas are written out naively here; only
torch.autograd and torch.optim are trusted. Environment: torch==2.11.0, numpy.

    python make_training_golden.py
"""
import json
import pathlib

import torch

torch.set_default_dtype(torch.float64)
OUT = pathlib.Path(__file__).parent / "training"


def write(name, value):
    OUT.mkdir(exist_ok=True)
    (OUT / name).write_text(json.dumps(value, indent=None, separators=(",", ":")) + "\n")


def flat(tensor):
    return [float(x) for x in tensor.detach().flatten()]


def divergence(kind, beta, student_logits, teacher_logits):
    log_q = student_logits.log_softmax(-1)
    log_p = teacher_logits.log_softmax(-1)
    q, p = log_q.exp(), log_p.exp()
    if kind == "forward_kl":
        return (p * (log_p - log_q)).sum(-1)
    if kind == "reverse_kl":
        return (q * (log_q - log_p)).sum(-1)
    log_m = ((1 - beta) * q + beta * p).log()
    return beta * (p * (log_p - log_m)).sum(-1) + (1 - beta) * (q * (log_q - log_m)).sum(-1)


def ppo_loss(log_prob, old, advantage, clip, dual_clip):
    ratio = (log_prob - old).clamp(-20, 20).exp()
    loss = torch.maximum(-advantage * ratio, -advantage * ratio.clamp(1 - clip, 1 + clip))
    if dual_clip > 0:
        loss = torch.where(advantage < 0, torch.minimum(loss, -advantage * dual_clip), loss)
    return loss


def head_case(generator, kind, beta, opd_temperature, sampling_temperature, dual_clip, entropy_coef):
    rows, width, teacher_width, student_vocab, teacher_vocab, shared = 7, 5, 6, 10, 12, 9
    draw = lambda *shape: torch.randn(*shape, generator=generator)
    hidden, head = (draw(rows, width) * 1.3).requires_grad_(), (draw(student_vocab, width) * 1.1).requires_grad_()
    teacher_rows, teacher_head = draw(rows, teacher_width), draw(teacher_vocab, teacher_width)
    tokens = torch.randint(0, shared, (rows,), generator=generator)
    included = torch.tensor([1, 1, 0, 1, 1, 1, 1])
    weight = 1.0 / rows
    logits = (hidden @ head.T)[:, :shared]
    teacher_logits = (teacher_rows @ teacher_head.T)[:, :shared]
    log_probs = (logits / sampling_temperature).log_softmax(-1)
    log_prob = log_probs.gather(1, tokens[:, None])[:, 0]
    old = log_prob.detach() + draw(rows) * 0.3
    advantage = draw(rows)
    entropy = -(log_probs.exp() * log_probs).sum(-1)
    value = divergence(kind, beta, logits / opd_temperature, teacher_logits / opd_temperature)
    policy = ppo_loss(log_prob, old, advantage, 0.2, dual_clip)
    loss = (included * weight * (0.7 * policy - entropy_coef * entropy + 1.3 * value)).sum()
    loss.backward()
    return dict(divergence=kind, beta=beta, opd_temperature=opd_temperature, sampling_temperature=sampling_temperature,
                dual_clip=dual_clip, entropy_coef=entropy_coef, clip=0.2, ppo_coef=0.7, opd_coef=1.3, weight=weight,
                rows=rows, width=width, teacher_width=teacher_width, student_vocab=student_vocab,
                teacher_vocab=teacher_vocab, scored_vocab=shared, hidden=flat(hidden), head=flat(head),
                teacher_rows=flat(teacher_rows), teacher_head=flat(teacher_head), tokens=tokens.tolist(),
                included=included.tolist(), old_log_probs=flat(old), advantages=flat(advantage),
                log_probs=flat(log_prob), entropies=flat(entropy), divergences=flat(value), ppo_losses=flat(policy),
                d_hidden=flat(hidden.grad), d_head=flat(head.grad))


def head_losses():
    generator = torch.Generator().manual_seed(11)
    cases = []
    for kind, beta in (("forward_kl", 0.5), ("reverse_kl", 0.5), ("jsd", 0.5), ("jsd", 0.2)):
        for opd_temperature, sampling_temperature in ((1.0, 1.0), (1.0, 0.5), (2.0, 1.0)):
            cases.append(head_case(generator, kind, beta, opd_temperature, sampling_temperature,
                                   dual_clip=0.0 if kind == "forward_kl" else 1.5,
                                   entropy_coef=0.0 if sampling_temperature == 0.5 else 0.01))
    write("head_losses.json", cases)


def ppo():
    cases = []
    for dual_clip in (0.0, 3.0):
        for advantage in (-1.5, 0.0, 0.8):
            for difference in (-25.0, -1.4, -0.3, -0.1, 0.0, 0.15, 0.4, 1.4, 25.0):
                log_prob = torch.tensor(-1.0 + difference, requires_grad=True)
                loss = ppo_loss(log_prob, torch.tensor(-1.0), torch.tensor(advantage), 0.2, dual_clip)
                loss.backward()
                cases.append(dict(log_prob=log_prob.item(), old_log_prob=-1.0, advantage=advantage, clip=0.2,
                                  dual_clip=dual_clip, loss=loss.item(), d_log_prob=float(log_prob.grad)))
    values = []
    for value, old, target in ((0.9, 0.1, 0.0), (0.9, 0.1, 2.0), (0.3, 0.1, 1.0), (-0.8, 0.1, 1.0), (-0.8, 0.1, -2.0)):
        v = torch.tensor(value, requires_grad=True)
        clipped = old + (v - old).clamp(-0.5, 0.5)
        loss = 0.5 * torch.maximum((v - target) ** 2, (clipped - target) ** 2)
        loss.backward()
        values.append(dict(value=value, old_value=old, target=target, value_clip=0.5, loss=loss.item(),
                           d_value=float(v.grad)))
    write("ppo.json", dict(policy=cases, value=values))


def adamw():
    generator = torch.Generator().manual_seed(12)
    cases = []
    for weight_decay, betas, max_norm in ((0.0, (0.9, 0.98), 1.0), (0.1, (0.9, 0.999), 0.5)):
        a = torch.randn(3, 2, generator=generator).requires_grad_()
        b = torch.randn(4, generator=generator).requires_grad_()
        start = flat(a) + flat(b)
        optimizer = torch.optim.AdamW([a, b], lr=1e-2, betas=betas, eps=1e-8, weight_decay=weight_decay)
        steps = []
        for k in range(10):
            rate = 1e-2 * min(1.0, (k + 1) / 4)
            optimizer.param_groups[0]["lr"] = rate
            a.grad = torch.randn(3, 2, generator=generator) * (0.1 if k % 3 else 2.0)
            b.grad = torch.randn(4, generator=generator) * 0.3
            gradient = flat(a.grad) + flat(b.grad)
            norm = torch.nn.utils.clip_grad_norm_([a, b], max_norm)
            optimizer.step()
            steps.append(dict(lr=rate, gradient=gradient, norm=float(norm), parameters=flat(a) + flat(b)))
        cases.append(dict(weight_decay=weight_decay, beta1=betas[0], beta2=betas[1], max_norm=max_norm, start=start,
                          steps=steps))
    write("adamw.json", cases)


def gae():
    generator = torch.Generator().manual_seed(13)
    cases = []
    for gamma, lam in ((1.0, 1.0), (0.99, 0.95), (0.9, 0.0)):
        n = 9
        rewards = torch.randn(n, generator=generator) * (torch.rand(n, generator=generator) < 0.4)
        values = torch.randn(n, generator=generator)
        after = torch.cat([values, torch.zeros(1)])
        delta = [rewards[t] + gamma * after[t + 1] - after[t] for t in range(n)]
        advantages = [float(sum((gamma * lam) ** (k - t) * delta[k] for k in range(t, n))) for t in range(n)]
        cases.append(dict(gamma=gamma, lam=lam, rewards=flat(rewards), values=flat(values), advantages=advantages))
    write("gae.json", cases)


def groups():
    generator = torch.Generator().manual_seed(14)
    cases = []
    for sizes in ((4, 4, 4), (2, 1, 5), (8,)):
        returns = [torch.randn(n, generator=generator) * 0.7 for n in sizes]
        returns[-1][0] = returns[-1][-1]
        compared = [g if len(g) > 1 else None for g in returns]
        # verl's compute_grpo_outcome_advantage and compute_rloo_outcome_advantage; a group of one has 0 here.
        grpo = [(g - g.mean()) / (g.std() + 1e-6) if g is not None else torch.zeros(1) for g in compared]
        rloo = [torch.stack([g[i] - torch.cat([g[:i], g[i + 1:]]).mean() for i in range(len(g))])
                if g is not None else torch.zeros(1) for g in compared]
        cases.append(dict(task=[t for t, n in enumerate(sizes) for _ in range(n)], returns=flat(torch.cat(returns)),
                          grpo=flat(torch.cat(grpo)), rloo=flat(torch.cat(rloo))))
    write("groups.json", cases)


if __name__ == "__main__":
    head_losses()
    ppo()
    adamw()
    gae()
    groups()
