// Limits what one client may have under way with another node, over the connections that it shares
// with all other clients of this node (peer-connections.h): one for each address of that node.
//
// The other node knows this node, not its clients: when calls exceed a limit there, it closes the
// connection for all of them. So the calls of each client are counted here, and of all together,
// below the other node's limits (apid/main.cc, gate.h); one beyond fails with ResourceExhausted. A
// call counts until its answer was dropped, as the other node keeps it that long. A part is
// reserved for privileged clients. What the other node sends to a capability of a client (a sink)
// is charged to that client's account until the client has taken it, and an answer, with the
// copy that the RPC system makes to send it, as long as it is kept here, so it is the client that
// is refused, and reading from the connection goes on.
#pragma once

#include <capnp/capability.h>
#include <kj/map.h>
#include <kj/refcount.h>

#include "common/wire/budget.h"

namespace talos::apid {

struct ForwardingLimits {
  struct Amount {
    unsigned calls;
    size_t bytes;
  };
  Amount perClient = {512, 16u << 20};  // two configs of the largest size
  Amount inTotal = {1900, 56u << 20};   // the other node: 2048, 64 MiB
  Amount reserve = {300, 12u << 20};    // of the total, for privileged clients
};

// The calls of all clients to one node. May outlive the connections.
class ForwardedCalls : public kj::Refcounted {
 public:
  ForwardedCalls(kj::StringPtr node, const ForwardingLimits& limits)
      : node(kj::str(node)), limits(limits) {}
  KJ_DISALLOW_COPY_AND_MOVE(ForwardedCalls);

  struct Client {
    kj::String name;
    bool privileged = false;
    kj::Own<Budget::Account> account = {};  // or null

    Client clone();
  };

  // A call, of a client, that counts while it exists.
  class Call : public kj::Refcounted {
   public:
    // Throws ResourceExhausted.
    Call(ForwardedCalls& calls, const Client& client, size_t bytes);
    ~Call() noexcept(false);
    KJ_DISALLOW_COPY_AND_MOVE(Call);

    // The charge of its answer, while the call exists: the answer is kept as long, for calls to
    // capabilities in it, even when the one who asked has read it.
    void hold(Budget::Account::Hold&& bytes) { answer.emplace(kj::mv(bytes)); }

   private:
    kj::Maybe<Budget::Account::Hold> answer;
    kj::Own<ForwardedCalls> calls;
    kj::String client;
    bool privileged;
    size_t bytes;
  };
  kj::Own<Call> begin(const Client& client, size_t bytes = 0);

  // For one call of a capability behind a membrane: the same, but the call counts. `passes` is true
  // while the call is made, and outlives the capability.
  capnp::Capability::Client counted(capnp::Capability::Client target, Client client, bool& passes);

 private:
  struct Used {
    unsigned calls = 0;
    size_t bytes = 0;
  };
  const kj::String node;
  const ForwardingLimits limits;
  Used all, byUsual;
  kj::TreeMap<kj::String, Used> byClient;

  void change(kj::StringPtr client, bool privileged, int calls, ptrdiff_t bytes);
};

// The same for a call to a capability of a client, which is charged to the account until it was
// answered.
capnp::Capability::Client charged(capnp::Capability::Client target,
                                  kj::Own<Budget::Account> account, bool& passes);

}  // namespace talos::apid
