// The first step of a brain with a service that its predecessor has left: pure.
//
// The predecessor may have crashed at any moment, so the last event that process 1 holds may be one
// step older than the process. What process 1 and containerd have outranks the event:
//
//   the predecessor crashed after      left            the successor
//   the request of a start             that request    starts it: waits for its conditions first
//   a wait, or a pause                 Waiting         the same
//   preparation for the start          Preparing       the same; the work is done again
//   the spawn, before its event        Preparing, and  adopts the process
//                                      a process
//   the same, of a container           Preparing or    starts it; the body finds the container
//                                      Waiting
//   the start                          Running         adopts the process
//   its exit, not acknowledged         Running         restarts it after a pause; the exit comes
//                                                      before the next start and is for no process
//   its exit, acknowledged             Waiting         starts it
//   SIGTERM or SIGKILL                 Stopping        sends SIGTERM, with the whole grace time; if
//                                                      it has exited, it is stopped, or is started
//                                                      if that was requested meanwhile
//   the stop                           Finished        does nothing
//
// A container's process is unknown to process 1, and containerd may be away: a container that was
// Running or Stopping is looked for until containerd answers. A part of the brain ended with the
// predecessor, and is started again if it was Running.
#pragma once

#include "rpc/machine.capnp.h"

namespace talos::machined {

struct LeftService {
  rpc::ServiceState state;  // of the last event; INITIALIZED without one
  bool startWhenDown;       // a start was requested, and there was no process yet
  bool hasProcess;          // process 1 has its process
  bool isContainer;
  bool isPart;  // of the brain: it ended with the predecessor
};

enum class AdoptionAction {
  kNone,     // it was never started
  kAdopt,    // the process
  kSeek,     // the container
  kRestart,  // it ended by itself
  kStart,
  kReportStop,    // it was being stopped, and has ended
  kKeepFinished,  // it was down already
  kKeepFailed,
};
struct AdoptionPlan {
  AdoptionAction action;
  bool stop = false;           // then requests a stop
  bool startWhenDown = false;  // and a start after that
};
AdoptionPlan planAdoption(const LeftService& left);

}  // namespace talos::machined
