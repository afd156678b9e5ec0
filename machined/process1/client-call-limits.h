// Limits how many long calls of the API, or calls that hold a resource, may be open at once: for
// one client and for the node. A client is one connection of apid, which has one for each of its
// clients.
//
// A call takes a slot when it begins and gives the slot back when it ends, however it ends. Beyond
// the limit a call is refused immediately (ResourceExhausted, naming the limit), so that no client
// blocks another. Nothing is kept: a new brain has no calls.
#pragma once

#include <kj/refcount.h>
#include <kj/string.h>

namespace talos::machined {

enum class CallKind {
  kRead,       // works on the pool of read-pool.h: files, mounts, processes, earlier boots
  kStream,     // until the caller ends the call: events, logs, resources
  kKernelLog,  // the same, with a descriptor and a buffer of 16 KiB
  kDaemon,  // of networkd, etcd-supervisor or kubed, which count no clients and have little memory
  kTime,    // resolves a name and queries its addresses: some sockets, for up to 10 s
};
constexpr size_t kCallKinds = 5;

struct CallLimit {
  kj::StringPtr what;
  unsigned perClient, inTotal;
};
CallLimit limitOf(CallKind kind);

// The open calls of the node.
class NodeCalls : public kj::Refcounted {
 public:
  unsigned count(CallKind kind) const { return open[static_cast<size_t>(kind)]; }

 private:
  friend class ClientCalls;
  unsigned open[kCallKinds] = {};
};

// The open calls of one client.
class ClientCalls : public kj::Refcounted {
 public:
  explicit ClientCalls(kj::Own<NodeCalls> node) : node(kj::mv(node)) {}
  // Returns the only client of a node, for tests.
  static kj::Own<ClientCalls> alone();

  class Slot {
   public:
    Slot(kj::Own<ClientCalls> client, CallKind kind);
    Slot(Slot&&) = default;
    ~Slot() noexcept(false);
    KJ_DISALLOW_COPY(Slot);

   private:
    kj::Own<ClientCalls> client;  // nullptr: moved from
    CallKind kind;
  };
  Slot enter(CallKind kind);
  // Sets the client's name and number, which are the same on each connection; for limits that
  // outlast a connection.
  void isFor(kj::StringPtr name) {
    id = 1ull << 32 | kj::hashCode(name);
    client = kj::str(name);
  }
  uint64_t number() const { return id; }  // 0: not set
  kj::StringPtr name() const { return client; }

 private:
  kj::Own<NodeCalls> node;
  uint64_t id = 0;
  kj::String client;
  unsigned open[kCallKinds] = {};
};

}  // namespace talos::machined
