#include "talosctl/dashboard/key-queue.h"

namespace talos::talosctl::dashboard {

KeyQueue::KeyQueue(kj::Function<kj::Promise<kj::Array<char>>()> read)
    : read(kj::mv(read)), reading(readOn().fork()) {}

kj::Promise<void> KeyQueue::readOn() {
  for (;;) {
    typed.addAll(co_await read());
    KJ_IF_MAYBE (fulfiller, waiting) (*fulfiller)->fulfill();
  }
}

kj::Promise<kj::Array<char>> KeyQueue::take(kj::Promise<void> pause) {
  if (typed.empty()) {
    auto some = kj::newPromiseAndFulfiller<void>();
    waiting = kj::mv(some.fulfiller);
    co_await some.promise.exclusiveJoin(kj::mv(pause)).exclusiveJoin(reading.addBranch());
    waiting = nullptr;
  }
  auto taken = kj::heapArray<char>(typed.asPtr());
  typed.clear();
  co_return taken;
}

}  // namespace talos::talosctl::dashboard
