// The interface of process 1 for the brain.
//
// Process 1 (machined/process1/init) starts children on request, reaps them, holds everything that
// must outlive a crash of the brain, and restarts the brain within a millisecond when it dies. The
// brain is an ordinary child that does all the thinking. At its start it finds its predecessor's
// state through this interface: the running children, the unacknowledged exits, and the held
// descriptors by name. So a crash of the brain at any line loses no child, no log byte and no
// record: anything handed to process 1 still exists, anything else never happened.
//
// An interface, so that the service supervisor and the sequencer are tested with a model of it.
#pragma once

#include <kj/async.h>
#include <kj/io.h>
#include <kj/string.h>
#include <kj/vector.h>

namespace talos::machined {

class Process1 {
 public:
  virtual ~Process1() noexcept(false) = default;

  struct SpawnRequest {
    kj::String slot;                    // unique name of the child: its service id
    kj::Array<kj::String> argv;         // argv[0] is an absolute path
    kj::Array<kj::String> environment;  // K=V
    kj::String cgroup;       // below /sys/fs/cgroup, made if absent; "" = the root's "init"
    uint64_t memoryMax = 0;  // bytes, of this cgroup, in force before the child runs; 0: no limit
    int stdoutFd = -1;       // also stderr; -1: /dev/null. stdin is always /dev/null
    struct Passed {
      int fd;
      int as;
    };  // further descriptors and the numbers they get in the child (>= 3)
    kj::Vector<Passed> passed;
  };
  struct Started {
    int pid;
    kj::AutoCloseFd pidfd;
  };
  // Starts a child. Conflict if the slot is taken. Fails with the errno's message if exec fails
  // (process 1 reports it).
  virtual kj::Promise<Started> spawn(SpawnRequest request) = 0;

  // Sends a signal to the child that runs in the slot. Never reaches another process; does nothing
  // if the child has already ended (its exit is on its way).
  virtual void signal(kj::StringPtr slot, int number) = 0;

  struct Exit {
    kj::String slot;
    int pid;
    int status;
  };  // status as of wait(2)
  // Returns every exit of a spawned child exactly once, also across a restart of the brain: process
  // 1 repeats it until acknowledged, and the next call of nextExit() acknowledges it.
  virtual kj::Promise<Exit> nextExit() = 0;

  // Hands a descriptor over to process 1 under a name; atomically replaces an earlier one of this
  // name. drop() closes it in process 1.
  virtual kj::Promise<void> hold(kj::StringPtr name, int fd) = 0;
  virtual kj::Promise<void> drop(kj::StringPtr name) = 0;

  // State of the predecessor: children, descriptors and restarts. Each is returned once.
  struct Survivor {
    kj::String slot;
    int pid;
    kj::AutoCloseFd pidfd;
  };
  virtual kj::Vector<Survivor> takeSurvivors() = 0;  // still running
  virtual kj::Maybe<kj::AutoCloseFd> takeHeld(
      kj::StringPtr name) = 0;  // a duplicate; process 1 keeps its own
  virtual kj::Vector<kj::String> heldNames() = 0;
  virtual unsigned brainRestarts() const = 0;  // 0 in the first brain of a boot

  // A request from the machine itself: the power button or SIGTERM to process 1 (power off),
  // ctrl-alt-del (reboot). One at a time; a repeated request counts once until it is taken. It is
  // repeated to the next brain until it has begun, which the next call of nextPowerAction()
  // reports; process 1 carries it out itself if the brain takes too long
  // (machined/process1/init/brain-watchdog.cc).
  enum class PowerAction { kPowerOff, kReboot };
  virtual kj::Promise<PowerAction> nextPowerAction() = 0;

  // Ends everything: process 1 kills all processes (SIGTERM, then SIGKILL), unmounts, syncs with a
  // limit and calls reboot(2) with `command` (LINUX_REBOOT_CMD_*). Does not return in practice.
  virtual kj::Promise<void> reboot(unsigned command) = 0;
};

}  // namespace talos::machined
