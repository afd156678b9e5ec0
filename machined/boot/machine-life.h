// Runs the life of the machine: its start (the sequences initialize and boot), its running, its
// shutdown. A machine that is not installed is installed after initialize, and reboots. A machine
// whose boot fails stays as it is, reports why, keeps its API, and does not reboot.
//
// Process 1 holds each stage as soon as it is reached (machined/boot/boot-progress.h). So a new
// brain continues with the sequence that its predecessor was in, from that sequence's start; one
// that finds a failed machine reports that again and starts nothing; and one that finds a machine
// that was asked to shut down shuts it down. A request to shut down takes over from a running
// sequence.
#pragma once

#include "machined/boot/boot-progress.h"
#include "machined/boot/machine-stage.h"
#include "machined/boot/sequences.h"
#include "machined/logs/node-console.h"

namespace talos::machined {

enum class Records { kThere, kLost };

// The machine around its life cycle.
class MachineLifeHost {
 public:
  virtual ~MachineLifeHost() noexcept(false) = default;
  virtual Sequence sequence(kj::StringPtr name) = 0;
  virtual void print(kj::StringPtr line, Tone tone) = 0;
  virtual void keepApi() = 0;  // a machine whose boot failed must stay reachable
  virtual void settled() = 0;  // the boot is over; its memory can be released
  // The machine shuts down for this reason; called before anything is stopped.
  virtual kj::Promise<void> recordReason(kj::StringPtr reason) = 0;
  // Called after initialize: the system runs from a medium, and has a disk to be installed on.
  virtual bool mustInstall() = 0;
  // Process 1 holds the promise of a reset, whether or not its caller was answered.
  virtual bool mustReset() = 0;
  // The boot failed for these reasons: a system on trial makes way for the other one.
  virtual void bootFailed(kj::StringPtr reasons) = 0;
};

class MachineLife final : private kj::TaskSet::ErrorHandler {
 public:
  struct Dependencies {
    Process1& process1;
    kj::Timer& timer;
    Sequencer& sequencer;
    MachineStatus& status;
    MachineLifeHost& host;
  };
  explicit MachineLife(Dependencies deps);
  KJ_DISALLOW_COPY_AND_MOVE(MachineLife);

  // Continues at the predecessor's stage, or starts. Once, when all dependencies of the tasks
  // exist. kLost: the config was lost with the records of the predecessor, so a running machine
  // boots again; running services are adopted.
  void begin(Records records = Records::kThere);

  void reboot();
  void shutdown();
  // The same after a delay: the answer to the caller has to get through apid, which stops first.
  void rebootSoon();
  // The same for callers of the API, resolving when process 1 holds the request. In a container the
  // container exits, and its launcher decides whether to start it again.
  kj::Promise<void> acceptReboot();
  kj::Promise<void> acceptRebootFor(kj::StringPtr reason);  // a constant
  kj::Promise<void> acceptShutdown();
  // The same when a reset was promised (machined/disk/volumes/node-reset.h).
  kj::Promise<void> acceptReset();
  // Resolves when process 1 holds it: from then on a new brain shuts the machine down.
  kj::Promise<void> intendReboot();

  // Its boot ended with an error; known to a new brain from the start.
  bool hasFailed() const { return progress.stage == Progress::Stage::FAILED; }

  // The running sequence; between two sequences the next one.
  kj::String sequenceOrNext() const;

 private:
  Dependencies deps;
  Progress progress;
  kj::TaskSet tasks;

  kj::Promise<void> live();
  kj::Promise<void> install();
  void reached(Progress::Stage stage, kj::Vector<kj::String> problems = {});
  void bootFailed(kj::Exception&& e);
  void goDown(Progress::Stage stage, kj::StringPtr reason);
  kj::Promise<void> takeDown(Progress::Stage stage, kj::String reason);
  kj::Promise<void> accept(Progress::Stage stage, kj::StringPtr reason);
  kj::Promise<void> intend(Progress::Stage stage);
  void soon(Progress::Stage stage, kj::StringPtr reason);
  void taskFailed(kj::Exception&& e) override;
};

}  // namespace talos::machined
