// A change of the config that has been accepted and is being carried out, as process 1 holds it
// ("config/pending", machined/process1/value-in-memory-file.h): the mode and the whole document.
//
// Process 1 holds the change before the first lasting step and drops it after the last. So a brain
// that finds a change knows that its predecessor crashed in between and repeats all steps; to
// repeat a step changes nothing. A change that is not held has not begun. Mode reboot leaves
// another intention (machined/boot/machine-stage.h, going down), which is held before this change
// is dropped.
//
// A config that is staged while the boot runs leaves a mark ("config/staged") for the rest of the
// boot: a new brain runs that boot again from its start, and must not write the running config over
// the staged one. The mark is held before the disk is written.
#pragma once

#include <kj/array.h>

#include "machined/process1/process1.h"
#include "rpc/configuration.capnp.h"

namespace talos::machined {

constexpr kj::StringPtr kPendingName = "config/pending"_kj;

struct Pending {
  rpc::ApplyMode mode;  // reboot, noReboot or staged
  kj::Array<char> text;

  Pending(rpc::ApplyMode mode, kj::Array<char> text) : mode(mode), text(kj::mv(text)) {}
  Pending(Pending&&) = default;
  Pending& operator=(Pending&&) = default;
  ~Pending() noexcept(false);  // overwrites the text: it holds secrets
};

// Returns the predecessor's change. Also nullptr if the change cannot be read: then nothing had
// begun.
kj::Maybe<Pending> takePending(Process1& process1);
// Resolves when process 1 holds the change.
kj::Promise<void> holdPending(Process1& process1, const Pending& pending);
kj::Promise<void> dropPending(Process1& process1);

// Returns true if a predecessor held the mark.
bool takeStagedInBoot(Process1& process1);
kj::Promise<void> holdStagedInBoot(Process1& process1);

}  // namespace talos::machined
