// A reset of the node: its plan, its promise, and its execution.
//
// A promise outlasts whatever happens: process 1 holds it for the next brain, and a mark says it to
// the next boot (the value kReset of META; in a container a file in the folder of STATE). Both are
// there before the caller has his answer. The mark goes last of all that is erased
// (machined/disk/installer/system-disk-erasure.h), so a reset that was cut off, by a crash or by
// the power, is started again and ends the same.
//
// The mark is text: "reboot" or "off", and the labels, with a blank between; without labels all is
// erased. Other marks are not ours; they are reported, not followed.
#pragma once

#include "machined/disk/devices/meta-partition.h"
#include "machined/disk/volumes/installer-client.h"
#include "machined/process1/uv-loop.h"
#include "machined/process1/value-in-memory-file.h"
#include "rpc/held.capnp.h"

namespace talos::machined {

struct ResetRequest {
  kj::Vector<kj::String> labels;  // none: all
  bool reboot = false;
  bool graceful = true;  // not in the mark: after a boot there is nothing to stop

  ResetRequest clone() const;
};
// Of a partition with this label.
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
// Of the disk with META. InvalidArgument for an unknown label, NotFound for one that the disk does
// not have, FailedPrecondition without META. Pure.
ResetPlan planReset(kj::ArrayPtr<const BlockDevice> devices, kj::ArrayPtr<const kj::String> labels);

class Reset : private kj::TaskSet::ErrorHandler {
 public:
  // `say`: the console.
  Reset(Process1& process1, kj::Function<void(kj::StringPtr line)> say)
      : say(kj::mv(say)), held(process1, "reset"), tasks(*this) {}
  virtual ~Reset() noexcept(false) = default;

  // Throws as planReset() does.
  virtual kj::Promise<ResetPlan> plan(kj::Vector<kj::String> labels) = 0;
  // Resolves when it cannot be forgotten. Failed, nothing is left of it; if that cannot be made
  // sure of, the message says so.
  kj::Promise<void> promise(ResetRequest request);
  // The same for a caller who may go away: then it is promised and `begin` called, or it has
  // failed, all the same. One that is promised in part would be carried out by the next brain, or
  // the next boot, whenever that is. A failure is also reported to `say`. `prepare` comes first,
  // when the request is known to be one that can be promised; its rejection ends the reset.
  using Step = kj::Function<kj::Promise<void>()>;
  // `undo`: what was prepared, at least in part, and is not promised after all.
  kj::Promise<void> accept(
      ResetRequest request, Step prepare, Step begin, kj::Function<void()> undo = []() {});
  // The reset that was promised to process 1 in this boot; none else.
  kj::Maybe<ResetRequest> promised();
  // Carries out what was promised, with its mark made sure of first: a brain that died in promise()
  // may have got to process 1 only. Nothing of what goes is mounted. Nothing promised, or done
  // already: it does nothing.
  kj::Promise<void> carryOutPromised();
  // The same for what an earlier boot has marked, and whether to reboot then; none: nothing is
  // marked. Rejects when that cannot be known: a mark that was overlooked would erase the node at a
  // later boot.
  kj::Promise<kj::Maybe<bool>> finishMarked(kj::Function<void()> begins);

 protected:
  // The reset that the mark asks for: of this boot or an earlier one.
  virtual kj::Promise<kj::Maybe<ResetRequest>> marked() = 0;
  virtual kj::Promise<void> carryOut(ResetRequest request) = 0;
  virtual kj::Promise<void> mark(kj::String text) = 0;
  virtual kj::Promise<void> unmark() = 0;  // one that is not there is fine

  kj::Function<void(kj::StringPtr line)> say;

 private:
  Held<rpc::HeldReset> held;
  kj::Maybe<ResetRequest> known;
  bool asked = false;      // process 1
  bool accepting = false;  // one that is not promised yet
  kj::TaskSet tasks;

  kj::Promise<void> promiseAndBegin(ResetRequest request, Step prepare, Step begin,
                                    kj::Function<void()> undo);
  void taskFailed(kj::Exception&& e) override;
};

// Of the system disk.
kj::Own<Reset> resetOfDisk(Process1& process1, UvLoop& uv, ReadPool& pool, MetaPartition& meta,
                           Installer& installer, kj::Function<void(kj::StringPtr line)> say);
// Of a node in a container: the content of the folders that its launcher has mounted.
// FailedPrecondition where it has mounted none.
kj::Own<Reset> resetOfFolders(Process1& process1, UvLoop& uv,
                              kj::Function<void(kj::StringPtr line)> say,
                              kj::StringPtr state = "/system/state", kj::StringPtr var = "/var",
                              kj::StringPtr mountinfo = "/proc/self/mountinfo");

}  // namespace talos::machined
