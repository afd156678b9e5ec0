#include "machined/process1/client-call-limits.h"

#include "common/base/error.h"

namespace talos::machined {

// Streams: a thousand clients with four each; one client may show many logs side by side. Reads:
// the pool runs a few at a time, the others wait their turn, and a turn is a piece of 64 KiB.
CallLimit limitOf(CallKind kind) {
  switch (kind) {
    case CallKind::kRead:
      return {"reads of files and processes", 16, 128};
    case CallKind::kStream:
      return {"streams", 64, 4096};
    case CallKind::kKernelLog:
      return {"readers of the kernel's log", 4, 64};
    case CallKind::kDaemon:
      return {"calls to networkd, etcd-supervisor and kubed", 16, 128};
    case CallKind::kTime:
      return {"queries of time servers", 2, 8};
  }
  KJ_UNREACHABLE;
}

kj::Own<ClientCalls> ClientCalls::alone() {
  return kj::refcounted<ClientCalls>(kj::refcounted<NodeCalls>());
}

ClientCalls::Slot ClientCalls::enter(CallKind kind) {
  auto limit = limitOf(kind);
  auto index = static_cast<size_t>(kind);
  if (open[index] >= limit.perClient) {
    fail(ErrorKind::kResourceExhausted,
         kj::str("this client has ", limit.perClient, " ", limit.what,
                 " open, which is the limit; close one of them first"));
  }
  if (node->open[index] >= limit.inTotal) {
    fail(ErrorKind::kResourceExhausted,
         kj::str("the clients of this node have ", limit.inTotal, " ", limit.what,
                 " open, which is the limit; retry later"));
  }
  return Slot(kj::addRef(*this), kind);
}

ClientCalls::Slot::Slot(kj::Own<ClientCalls> c, CallKind kind) : client(kj::mv(c)), kind(kind) {
  ++client->open[static_cast<size_t>(kind)];
  ++client->node->open[static_cast<size_t>(kind)];
}

ClientCalls::Slot::~Slot() noexcept(false) {
  if (client.get() == nullptr) return;
  --client->open[static_cast<size_t>(kind)];
  --client->node->open[static_cast<size_t>(kind)];
}

}  // namespace talos::machined
