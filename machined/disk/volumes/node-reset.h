// A reset of the node: its plan, its promise, and its execution.
//
// A promised reset survives every failure: process 1 holds it for the next brain, and a mark tells
// the next boot (the value kReset of META; in a container a file in the folder of STATE). Both
// exist before the caller gets an answer. The mark is erased last
// (machined/disk/installer/system-disk-erasure.h), so a reset that a crash or a power cut
// interrupts is started again and has the same result.
//
// The mark is text: "reboot" or "off", then the labels, separated by blanks; without labels
// everything is erased. Other marks are not ours; they are reported and ignored.
#pragma once

#include "machined/disk/devices/meta-partition.h"
#include "machined/disk/volumes/installer-client.h"
#include "machined/process1/uv-loop.h"
#include "machined/process1/value-in-memory-file.h"
#include "rpc/held.capnp.h"

namespace talos::machined {

struct ResetRequest {
  kj::Vector<kj::String> labels;  // empty: all
  bool reboot = false;
  bool graceful = true;  // not in the mark: after a boot there is nothing to stop

  ResetRequest clone() const;
};
// Returns true if the request erases the partition with this label.
bool erases(const ResetRequest& request, kj::StringPtr label);
kj::String markOf(const ResetRequest& request);
kj::Maybe<ResetRequest> requestOfMark(kj::ArrayPtr<const char> mark);

struct ResetPlan {
  struct Target {
    kj::String label, device;
    uint64_t bytes;
  };
  kj::String disk;
  kj::Vector<Target> targets;
};
// Plans a reset of the disk with META. InvalidArgument for an unknown label, NotFound for a label
// that the disk lacks, FailedPrecondition without META. Pure.
ResetPlan planReset(kj::ArrayPtr<const BlockDevice> devices, kj::ArrayPtr<const kj::String> labels);

class Reset : private kj::TaskSet::ErrorHandler {
 public:
  // `say`: the console.
  Reset(Process1& process1, kj::Function<void(kj::StringPtr line)> say)
      : say(kj::mv(say)), held(process1, "reset"), tasks(*this) {}
  virtual ~Reset() noexcept(false) = default;

  // Throws like planReset().
  virtual kj::Promise<ResetPlan> plan(kj::Vector<kj::String> labels) = 0;
  // Resolves when the promise cannot be lost. If it fails, nothing of the promise is left; if that
  // is uncertain, the message says so.
  kj::Promise<void> promise(ResetRequest request);
  // Promises a reset for a caller who may disconnect: even then, either the reset is promised and
  // `begin` called, or it has failed. Otherwise the next brain, or the next boot, would carry out a
  // partial promise at any later time. A failure is also reported to `say`. `prepare` runs first,
  // once the request is known to be valid; if it rejects, the reset ends.
  using Step = kj::Function<kj::Promise<void>()>;
  // `undo`: called if the reset is not promised after `prepare` has started.
  kj::Promise<void> accept(
      ResetRequest request, Step prepare, Step begin, kj::Function<void()> undo = []() {});
  // Returns true while accept() runs.
  bool isBeingAccepted() const { return accepting; }
  // Returns the reset that was promised to process 1 in this boot, or nullptr.
  kj::Maybe<ResetRequest> promised();
  // Carries out the promised reset. It makes sure of the mark first, because a brain that died in
  // promise() may have reached only process 1. Nothing of what is erased may be mounted. Does
  // nothing without a promise, or if the reset is done already.
  kj::Promise<void> carryOutPromised();
  // Finishes a reset that an earlier boot has marked. Resolves with whether to reboot then; nullptr
  // if no mark exists. Rejects if this cannot be determined: an overlooked mark would erase the
  // node at a later boot.
  kj::Promise<kj::Maybe<bool>> finishMarked(kj::Function<void()> begins);

 protected:
  // Returns the reset that the mark requests: of this boot or an earlier one.
  virtual kj::Promise<kj::Maybe<ResetRequest>> marked() = 0;
  virtual kj::Promise<void> carryOut(ResetRequest request) = 0;
  virtual kj::Promise<void> mark(kj::String text) = 0;
  virtual kj::Promise<void> unmark() = 0;  // a missing one is fine

  kj::Function<void(kj::StringPtr line)> say;

 private:
  Held<rpc::HeldReset> held;
  kj::Maybe<ResetRequest> known;
  bool asked = false;      // process 1
  bool accepting = false;  // a reset that is not promised yet
  kj::TaskSet tasks;

  kj::Promise<void> promiseAndBegin(ResetRequest request, Step prepare, Step begin,
                                    kj::Function<void()> undo);
  void taskFailed(kj::Exception&& e) override;
};

// Resets the system disk.
kj::Own<Reset> resetOfDisk(Process1& process1, UvLoop& uv, ReadPool& pool, MetaPartition& meta,
                           Installer& installer, kj::Function<void(kj::StringPtr line)> say);
// Resets a node in a container: empties the folders that its launcher has mounted.
// FailedPrecondition if it has mounted none.
kj::Own<Reset> resetOfFolders(Process1& process1, UvLoop& uv,
                              kj::Function<void(kj::StringPtr line)> say,
                              kj::StringPtr state = "/system/state", kj::StringPtr var = "/var",
                              kj::StringPtr mountinfo = "/proc/self/mountinfo");

}  // namespace talos::machined
