// ActorLinks: how messages leave a process and come into it. The addresses of actors elsewhere, the calls that are open to
// them, the links they go over.
//
// An actor elsewhere is an Address like any other; sending to it puts an ActorCall on the link to its process.
// AL-1  an ask to another process is answered once: by its actor, or target_down when the link or the directory reports
//       the process down (R4); never twice, never by a later start of the process.
// AL-2  a call is acted on only by the incarnation it was sent to, and only from the incarnation the directory knows
//       as the sender's process (CL-2).
// AL-3  FIFO per sender and receiver while the receiver's process lives; what is sent while it is away waits in order.
// AL-4  at most max_mailbox asks of this process to one actor are open; one more is `overloaded`.
// Thread-safe. The transport's callbacks run on its socket thread and never block.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/actor/detail/address.hpp"
#include "runtime/actor/detail/cluster_core.hpp"
#include "runtime/actor/detail/executor.hpp"
#include "runtime/cluster/directory.hpp"
#include "runtime/cluster/messages.hpp"
#include "runtime/transport/transport.hpp"
#include "runtime/wire/frame.hpp"

namespace memopd {

class ActorLinks final : public detail::Executor, public std::enable_shared_from_this<ActorLinks> {
 public:
  /// @param self  name of this process in the directory
  ActorLinks(std::string self, std::uint64_t incarnation, detail::ClusterCore& core);
  ~ActorLinks() override;

  /// The links go over this one, from now on; it outlives this object's use.
  void connect(Transport& transport);
  /// Ends: every open call is answered with target_down.
  void close();

  /// An actor of this process that others may call.
  void add_local(const ActorRef& actor);
  /// Takes the directory over: who is where, and who is down.
  void apply(const DirectoryUpdate& update);
  /// Of the group as the directory knows it, local and elsewhere. @error not_found
  [[nodiscard]] Expected<ActorGroup> find(std::string_view group) const;
  [[nodiscard]] Directory directory() const;
  /// Asks an actor elsewhere to end.
  void stop(const ActorRef& actor, std::string_view reason);

  // From the transport; see TransportHandlers.
  void peer_up(const Peer& peer);
  void peer_down(const Peer& peer, const Error& reason);
  /// @return false: not a message for actors
  bool take(const Peer& peer, const FrameView& frame, Expected<void>& result);
  void dial_failed(const DialRequest& request, const Error& error);
  /// Sends what a peer was too slow to take, and dials again whom somebody waits for; called every few milliseconds.
  void tick();

  // Executor, of the addresses elsewhere.
  [[nodiscard]] std::chrono::nanoseconds now() const override { return core_.now(); }
  void enqueue(const std::shared_ptr<detail::Address>&, detail::Envelope, std::chrono::nanoseconds) override {}
  Expected<void> carry(const std::string& from, const std::shared_ptr<detail::Address>& to,
                       detail::Envelope envelope) override;
  void carry_answer(const std::string& from, std::shared_ptr<detail::AnswerSink> to, std::uint64_t id,
                    detail::Answer answer) override;
  void actor_ended(const Down&) override {}

 private:
  class RemoteAsker;
  struct Process {
    ProcessEntry entry;
    std::vector<std::shared_ptr<detail::Address>> addresses;
    bool is_linked = false;
    std::uint64_t linked_incarnation = 0;
    InstanceId linked_instance;
    std::optional<InstanceId> dialling;     ///< whom: a dial to an earlier start may still be under way
    std::chrono::nanoseconds next_dial{0};  ///< after one that came to nothing
    bool was_lost = false;                  ///< links are made when they are needed, and again for whom we had one to
  };
  struct OpenCall {
    std::shared_ptr<detail::ReplySlot> slot;
    std::shared_ptr<detail::Address> target;
    std::string process;
  };
  /// What is done once the lock is released: answers and notices run other people's code.
  struct Aftermath {
    struct Failed {
      std::shared_ptr<detail::ReplySlot> slot;
      Error error;
    };
    struct Notice {
      std::shared_ptr<detail::Address> watcher;
      std::uint64_t id = 0;
      Down down;
    };
    void add(const detail::Address::Watchers& watchers, const Down& down);
    void run();

    std::vector<Failed> failed;
    std::vector<Notice> notices;
    std::vector<detail::HeldEnvelope> dropped;
  };

  Expected<void> carry_locked(const std::string& from, const std::shared_ptr<detail::Address>& to,
                              detail::Envelope& envelope, Aftermath& aftermath);
  void fail_calls(const Process& process, const std::string& reason, Aftermath& aftermath);
  void lose_process(Process& process, const std::string& reason, Aftermath& aftermath);
  void end_process(Process& process, Aftermath& aftermath);
  void bring_back(Process& process, Aftermath& aftermath);
  void dial_if_needed(Process& process);
  [[nodiscard]] static bool is_awaited(const Process& process);
  void apply_process(const ProcessEntry& entry, Aftermath& aftermath);
  void apply_actor(const ActorEntry& entry);
  Expected<void> take_call(const Peer& peer, const ActorCall& call);
  Expected<void> take_answer(const Peer& peer, ActorAnswer answer);
  void send_answer(const InstanceId& to, const ActorAnswer& answer);

  const std::string self_;
  const std::uint64_t incarnation_;
  detail::ClusterCore& core_;

  mutable std::mutex mutex_;  // guards what follows
  Transport* transport_ = nullptr;
  Directory directory_;
  std::map<std::string, std::unique_ptr<Process>, std::less<>> processes_;
  std::map<std::string, std::shared_ptr<detail::Address>, std::less<>> local_;
  std::map<std::string, std::shared_ptr<detail::Address>, std::less<>> remote_;
  std::unordered_map<std::uint64_t, OpenCall> open_calls_;
  std::uint64_t next_call_ = 1;
  std::vector<std::pair<InstanceId, std::vector<std::byte>>> waiting_answers_;
  bool is_closed_ = false;
};

}  // namespace memopd
