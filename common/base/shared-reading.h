// One reading at a time of what is expensive to read, shared by those who ask meanwhile.
//
// A caller gets what was read after its call: while a reading runs, the callers that arrive share
// the next one. So any number of callers cost one reading and one that waits. A failure belongs to
// those who shared it. A caller that leaves disturbs no other. The newest value stays in memory
// until the next one. Not thread-safe.
#pragma once

#include <kj/async.h>
#include <kj/function.h>
#include <kj/refcount.h>

namespace talos {

template <typename T>
class SharedReading {
 public:
  struct Value final : public kj::Refcounted {
    explicit Value(T&& value) : value(kj::mv(value)) {}
    kj::Own<Value> addRef() { return kj::addRef(*this); }  // of a forked promise
    T value;
  };

  explicit SharedReading(kj::Function<kj::Promise<T>()> read) : read(kj::mv(read)) {}
  KJ_DISALLOW_COPY_AND_MOVE(SharedReading);

  // This outlives the promise.
  kj::Promise<kj::Own<Value>> get() {
    KJ_IF_MAYBE (waiting, next) return waiting->addBranch();
    kj::Promise<void> turn = kj::READY_NOW;
    KJ_IF_MAYBE (before, running) {
      turn = before->addBranch().ignoreResult().catch_([](kj::Exception&&) {});
    }
    next = turn.then([this]() { return begin(); }).fork();
    return KJ_ASSERT_NONNULL(next).addBranch();
  }

 private:
  kj::Function<kj::Promise<T>()> read;
  kj::Maybe<kj::ForkedPromise<kj::Own<Value>>> running, next;

  kj::Promise<kj::Own<Value>> begin() {
    running = kj::mv(next);
    next = nullptr;
    return read().then([](T&& value) { return kj::refcounted<Value>(kj::mv(value)); });
  }
};

}  // namespace talos
