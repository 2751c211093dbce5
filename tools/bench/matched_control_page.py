"""Table and curves of tools/bench/matched_control, from its results.json alone."""

import html as escaping
import statistics

COLORS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb", "#222255", "#cc8800", "#007788")


def spread(values: list[float]) -> str:
    """mean +- sample standard deviation."""
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.3f} ± {deviation:.3f}"


def by_arm(report: dict) -> dict[str, list[dict]]:
    arms: dict[str, list[dict]] = {}
    for run in report["runs"]:
        arms.setdefault(run["arm"], []).append(run)
    return arms


def paired(arms: dict[str, list[dict]]) -> list[tuple[str, str, list[float]]]:
    """Differences of final F1 by seed: aligned minus the control with the same teacher."""
    pairs = [("aligned-a", "persistent-a"), ("aligned-a", "memory_mask-a"), ("aligned-b", "persistent-b"),
             ("aligned-c", "persistent-c"), ("aligned-c", "persistent_both-c"), ("aligned-a", "opd-a"),
             ("aligned-a", "ppo")]
    rows = []
    for left, right in pairs:
        if left in arms and right in arms:
            of = {run["seed"]: run["final"]["f1"] for run in arms[right]}
            rows.append((left, right, [run["final"]["f1"] - of[run["seed"]] for run in arms[left] if run["seed"] in of]))
    return rows


def markdown(report: dict) -> str:
    arms = by_arm(report)
    settings = "".join(f" {setting}" for setting in report.get("settings", []))
    lines = [f"{report['date']}, seeds {', '.join(map(str, report['seeds']))}, {report['minutes']} minutes.{settings}", "",
             "| teacher | what it read | F1 | sure, call-local | sure, flat | nats, call-local | nats, flat |",
             "|---|---|---|---|---|---|---|"]
    for teacher in report["teachers"]:
        lines.append(f"| {teacher['teacher']} | {teacher['what']} | {teacher['f1']:.3f} | {teacher['local_sure_frac']:.3f} | "
                     f"{teacher['flat_sure_frac']:.3f} | {teacher['local_nats']:.3f} | {teacher['flat_nats']:.3f} |")
    lines += ["", "| arm | what | F1 | EM | F1, K = 4 | F1 by seed | valid |", "|---|---|---|---|---|---|---|"]
    first = next(iter(arms.values()))
    cold = [run["cold_start"] for run in first]
    lines.append("| cold start | before training | " + " | ".join(
        spread([group[key] for group in cold]) for key in ("f1", "f1_em", "f1_k4")) +
        f" | {' '.join(format(group['f1'], '.2f') for group in cold)} | |")
    for name, runs in arms.items():
        final = [run["final"] for run in runs]
        lines.append(f"| {name} | {runs[0]['what']} | " + " | ".join(
            spread([group[key] for group in final]) for key in ("f1", "f1_em", "f1_k4")) +
            f" | {' '.join(format(group['f1'], '.2f') for group in final)} | "
            f"{statistics.mean(run['valid'] for run in runs):.2f} |")
    lines += ["", "| difference of final F1 | by seed | mean |", "|---|---|---|"]
    for left, right, values in paired(arms):
        lines.append(f"| {left} - {right} | {' '.join(format(v, '+.2f') for v in values)} | {statistics.mean(values):+.3f} |")
    lines += ["", "| curve: F1 at step | " + " | ".join(str(step) for step, _ in first[0]["curve"]) + " |",
              "|---|" + "---|" * len(first[0]["curve"])]
    for name, runs in arms.items():
        lines.append(f"| {name} | " + " | ".join(
            f"{statistics.mean(values):.2f}" for values in zip(*([v for _, v in run["curve"]] for run in runs))) + " |")
    return "\n".join(lines) + "\n"


def curve_svg(report: dict) -> str:
    width, height, left, top = 860, 420, 46, 12
    arms = by_arm(report)
    last = max(step for run in report["runs"] for step, _ in run["curve"])

    def place(step: float, value: float) -> str:
        return f"{left + (width - left - 170) * step / last:.1f},{top + (height - top - 30) * (1 - value):.1f}"

    parts = [f'<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" '
             'font-size="12" role="img" aria-label="F1 over training steps by arm">']
    for tick in range(0, 11, 2):
        a, b = place(0, tick / 10).split(","), place(last, tick / 10).split(",")
        parts.append(f'<line x1="{a[0]}" y1="{a[1]}" x2="{b[0]}" y2="{b[1]}" stroke="#ddd"/>'
                     f'<text x="8" y="{float(a[1]) + 4}">{tick / 10:.1f}</text>')
    for index, (name, runs) in enumerate(arms.items()):
        color = COLORS[index % len(COLORS)]
        for run in runs:
            points = " ".join(place(step, value) for step, value in run["curve"])
            parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="0.7" opacity="0.5"/>')
        steps = [step for step, _ in runs[0]["curve"]]
        means = [statistics.mean(values) for values in zip(*([v for _, v in run["curve"]] for run in runs))]
        points = " ".join(place(step, value) for step, value in zip(steps, means))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2.5"/>')
        parts.append(f'<text x="{width - 160}" y="{top + 14 + 18 * index}" fill="{color}">{escaping.escape(name)}</text>')
    parts.append(f'<text x="{left}" y="{height - 6}">step 0 .. {last}; thin: one seed, thick: mean</text></svg>')
    return "".join(parts)


def html(report: dict) -> str:
    return ("<!doctype html><meta charset=utf-8><title>memopd: matched control</title>"
            "<style>body{font-family:sans-serif;max-width:60em;margin:2em auto}pre{overflow:auto}</style>"
            "<h1>Matched control</h1><p>Same cold start, tasks and seeds; an arm changes only what its name says. "
            "Where two arms overlap within the spread of their seeds, no difference is shown.</p>"
            f"{curve_svg(report)}<pre>{escaping.escape(markdown(report))}</pre>\n")
