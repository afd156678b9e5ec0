// The partition META of this machine: where it is, what it holds, and changes of that
// (meta-values.h has the format). A node in a container has a file in its place.
//
// The partition is looked for by its name in the GPT at each call, so nothing is remembered that a
// disk could make untrue. All work on the disk is in the pool. One call at a time has the
// partition, reads too: the next one waits until the work of the one before has ended, also when
// the caller of that has hung up or its deadline has passed.
//
// A change is answered when it is on the disk. Each of its writes is flushed before the next one
// begins, and after a crash at any of them the partition has the old value or the new one.
#pragma once

#include <kj/async.h>
#include <kj/refcount.h>
#include <kj/timer.h>

#include "machined/disk/devices/block-devices.h"
#include "machined/process1/read-pool.h"

namespace talos::machined {

struct MetaValue {
  uint32_t key;
  kj::Array<kj::byte> value;  // read() zeroes it when it goes
};

// Throws FailedPrecondition when there is none; Conflict, naming them, when there are several.
const BlockDevice& findMeta(kj::ArrayPtr<const BlockDevice> devices);

class MetaPartition {
 public:
  explicit MetaPartition(kj::Timer& timer, kj::StringPtr sys = "/sys", kj::StringPtr dev = "/dev")
      : timer(timer), sys(kj::str(sys)), dev(kj::str(dev)) {}
  // No disk is looked at. FailedPrecondition of each call when there is no such file.
  static MetaPartition inFile(kj::Timer& timer, kj::StringPtr path) {
    return MetaPartition(timer, nullptr, nullptr, kj::str(path));
  }
  KJ_DISALLOW_COPY_AND_MOVE(MetaPartition);

  // The value of this key, NotFound when there is none; of key 0 all, in the order of their keys.
  kj::Promise<kj::Vector<MetaValue>> read(ReadPool::Client pool, uint32_t key);
  // InvalidArgument for the key 0 and a value without room. A secret value is a secretArray().
  kj::Promise<void> write(ReadPool::Client pool, uint32_t key, kj::Array<kj::byte> value);
  kj::Promise<void> remove(ReadPool::Client pool, uint32_t key);  // NotFound when there is none

 private:
  kj::Timer& timer;
  kj::String sys, dev;
  kj::Maybe<kj::String> file;

  // State that the object and the work in the pool share, all on the loop's thread.
  struct State : public kj::Refcounted {
    kj::Maybe<kj::ForkedPromise<void>> busy;  // until the work that has the partition has ended
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
