// The partition META of this machine: finds it, reads its values and changes them (meta-values.h
// has the format). A node in a container has a file in its place.
//
// Each call looks for the partition by its name in the GPT, so no remembered fact can become wrong
// when a disk changes. All disk work runs in the pool. One call at a time uses the partition, also
// to read: the next call waits until the work of the previous one has ended, even if the previous
// caller has hung up or its deadline has passed.
//
// A change is answered when it is on the disk. Each of its writes is flushed before the next one
// begins, so that a crash at any write leaves the old value or the new one.
#pragma once

#include <kj/async.h>
#include <kj/refcount.h>
#include <kj/timer.h>

#include "machined/disk/devices/block-devices.h"
#include "machined/process1/read-pool.h"

namespace talos::machined {

struct MetaValue {
  uint32_t key;
  kj::Array<kj::byte> value;  // read() zeroes it on destruction
};

// Throws FailedPrecondition if no device is META; Conflict, naming the devices, if several are.
const BlockDevice& findMeta(kj::ArrayPtr<const BlockDevice> devices);

class MetaPartition {
 public:
  explicit MetaPartition(kj::Timer& timer, kj::StringPtr sys = "/sys", kj::StringPtr dev = "/dev")
      : timer(timer), sys(kj::str(sys)), dev(kj::str(dev)) {}
  // Looks at no disk. Each call fails with FailedPrecondition if the file does not exist.
  static MetaPartition inFile(kj::Timer& timer, kj::StringPtr path) {
    return MetaPartition(timer, nullptr, nullptr, kj::str(path));
  }
  KJ_DISALLOW_COPY_AND_MOVE(MetaPartition);

  // Returns the value of this key, or all values in the order of their keys for key 0. NotFound if
  // the key has no value.
  kj::Promise<kj::Vector<MetaValue>> read(ReadPool::Client pool, uint32_t key);
  // Sets the value of this key, and resolves when it is on the disk. InvalidArgument, and nothing
  // is changed, for key 0 and for a value that does not fit. DeadlineExceeded when the disk does
  // not answer; the change may still be made. Other keys keep their values in any case. A secret
  // value is a secretArray().
  kj::Promise<void> write(ReadPool::Client pool, uint32_t key, kj::Array<kj::byte> value);
  // Removes the value of this key, with the promises of write(). NotFound without a value.
  kj::Promise<void> remove(ReadPool::Client pool, uint32_t key);

 private:
  kj::Timer& timer;
  kj::String sys, dev;
  kj::Maybe<kj::String> file;

  // State that the object and the work in the pool share, all on the loop's thread.
  struct State : public kj::Refcounted {
    kj::Maybe<kj::ForkedPromise<void>> busy;  // until the running work has ended
  };
  class Turn;
  MetaPartition(kj::Timer& timer, kj::String sys, kj::String dev, kj::String file)
      : timer(timer), sys(kj::mv(sys)), dev(kj::mv(dev)), file(kj::mv(file)) {}
  kj::Own<State> state = kj::refcounted<State>();

  template <typename F>
  auto inTurn(ReadPool::Client pool, F work) -> kj::Promise<decltype(work(kj::StringPtr()))>;
  template <typename F>
  auto waitAndRun(ReadPool::Client pool, F work) -> kj::Promise<decltype(work(kj::StringPtr()))>;
};

}  // namespace talos::machined
