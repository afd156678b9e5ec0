// Shares one reading of an expensive value among the callers that arrive meanwhile.
//
// A caller gets a value that was read after its call: the callers that arrive while a reading runs
// share the next one. So any number of callers cost at most one running and one waiting reading. A
// failure goes to all callers that shared the reading. A caller that drops its promise does not
// affect the others. The newest value stays in memory until the next one. Not thread-safe.
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
    kj::Own<Value> addRef() { return kj::addRef(*this); }  // for a forked promise
    T value;
  };

  explicit SharedReading(kj::Function<kj::Promise<T>()> read) : read(kj::mv(read)) {}
  KJ_DISALLOW_COPY_AND_MOVE(SharedReading);

  // This object must outlive the promise.
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
