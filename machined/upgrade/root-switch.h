// The switch of the running node to the system of another slot without a reboot, as the upgrader
// sees it (machined/upgrade/live has its parts).
//
// While the new system is on trial the boot loader's choice stays what it was: the confirmed slot,
// and no slot to try. So a power cut, or a reboot for whatever reason, starts the old system; the
// trial is of the system that took over, not of the next start. The confirmation is the same one
// write as that of any trial. Each step, and the end of the machine, of the brain, and of a daemon
// in it:
//
//   step                      power cut   crash of the brain               crash of a daemon
//   prepare the new root      old slot    nothing has changed; the next    restarted, old program
//                                         brain takes it away
//   record: armed             old slot    the same; the upgrade failed     the same
//   process 1 has the limit   old slot    the same                         the same
//   ENTER THE NEW ROOT        old slot    the brain of the new system      restarted, new program
//   the brain ends            old slot    process 1 starts the new one     restarted, new program
//   services are replaced     old slot    the next brain finds those that  restarted, new program
//                                         still run old files
//   CONFIRM THE OTHER SLOT    new slot    kConfirmed                       restarted, new program
//
// A new system that is not healthy returns: it prepares and enters the old slot's system in the
// same way; if it cannot, it reboots, which starts the old slot. A new system whose brain does not
// even run is rebooted by process 1, which has the limit of the trial (init-protocol.h).
#pragma once

#include <kj/async.h>

#include "common/disk/boot-slots.h"

namespace talos::machined {

class RootSwitch {
 public:
  virtual ~RootSwitch() noexcept(false) = default;

  // FailedPrecondition, with the names, if the image with this file config-keys states that it has
  // parts which only a reboot could start. Changes nothing.
  virtual kj::Promise<void> requireStated(kj::String configKeys) = 0;
  // Mounts the system of a slot beside the running one, until enter() or abandon().
  // FailedPrecondition, and nothing is mounted, if only a reboot can start it; names what differs.
  virtual kj::Promise<void> prepare(install::Slot slot) = 0;
  // Makes the prepared system the running one. Process 1 starts its brain in place of this one, so
  // the promise does not resolve. Rejects if the running system stays. `trialS`: the time that the
  // system has to be confirmed; nullptr: it is the confirmed one.
  virtual kj::Promise<void> enter(install::Slot slot, kj::Maybe<unsigned> trialS) = 0;
  // Takes the prepared system away. Does not reject.
  virtual kj::Promise<void> abandon() = 0;

  // Restarts one after the other the services whose programs have other files in the running
  // system; each is up before the next is restarted. Resolves at the end; rejects if one does not
  // come up.
  virtual kj::Promise<void> replaceServices() = 0;
  // Returns what replaceServices() has yet to do; nullptr if it has ended well.
  virtual kj::Maybe<kj::String> unreplaced() = 0;
};

}  // namespace talos::machined
