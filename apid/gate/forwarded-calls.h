// Limits the calls that one client may have in progress with another node, over the connections
// that it shares with all other clients of this node (peer-connections.h): one connection for each
// address of the other node.
//
// The other node knows this node, not its clients: when calls exceed a limit there, it closes the
// connection for all of them. So the calls of each client, and of all together, are counted here,
// below the other node's limits (apid/main.cc, gate.h); a call beyond fails with ResourceExhausted.
// A call counts until its answer was dropped, because the other node keeps it as long. A part is
// reserved for privileged clients.
//
// Data that the other node sends to a capability of a client (a sink) is charged to this client's
// account until the client has taken it. An answer is charged as long as it is kept here, together
// with the copy that the RPC system makes to send it. So an exhausted account refuses only its
// client, and reading from the connection continues.
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
  Amount inTotal = {1900, 56u << 20};   // the other node's limits: 2048, 64 MiB
  Amount reserve = {300, 12u << 20};    // part of the total for privileged clients
};

// The calls of all clients to one node. They may outlive the connections.
class ForwardedCalls : public kj::Refcounted {
 public:
  ForwardedCalls(kj::StringPtr node, const ForwardingLimits& limits)
      : node(kj::str(node)), limits(limits) {}
  KJ_DISALLOW_COPY_AND_MOVE(ForwardedCalls);

  struct Client {
    kj::String name;
    bool privileged = false;
    kj::Own<Budget::Account> account = {};  // nullptr: not charged

    Client clone();
  };

  // A client's call, counted while this object exists.
  class Call : public kj::Refcounted {
   public:
    // Throws ResourceExhausted beyond the limits.
    Call(ForwardedCalls& calls, const Client& client, size_t bytes);
    ~Call() noexcept(false);
    KJ_DISALLOW_COPY_AND_MOVE(Call);

    // Charges the answer, while the call exists: the answer is kept as long, for calls to
    // capabilities in it, even after the caller has read it.
    void hold(Budget::Account::Hold&& bytes) { answer.emplace(kj::mv(bytes)); }

   private:
    kj::Maybe<Budget::Account::Hold> answer;
    kj::Own<ForwardedCalls> calls;
    kj::String client;
    bool privileged;
    size_t bytes;
  };
  kj::Own<Call> begin(const Client& client, size_t bytes = 0);

  // Wraps a capability that a membrane guards for one call, which counts. `passes` is true while
  // the call is made, and outlives the capability.
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

// Wraps a capability of a client for one call, which is charged to the account until it was
// answered.
capnp::Capability::Client charged(capnp::Capability::Client target,
                                  kj::Own<Budget::Account> account, bool& passes);

}  // namespace talos::apid
