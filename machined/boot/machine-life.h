// Runs the life of the machine: its start (the sequences initialize and boot), its running, its
// shutdown. A machine that is not installed is installed after initialize, and reboots. A machine
// whose boot fails stays as it is, reports why, keeps its API, and does not reboot.
//
// Process 1 holds each stage as soon as it is reached (machined/boot/machine-stage.h). So a new
// brain runs its predecessor's sequence again, from the start of the sequence. If the machine has
// failed, the new brain reports the failure again and starts nothing; if a shutdown was requested,
// it shuts the machine down. A request to shut down takes over from a running sequence.
#pragma once

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
  // Records the reason of a shutdown; called before anything is stopped.
  virtual kj::Promise<void> recordReason(kj::StringPtr reason) = 0;
  // Called after initialize. Returns true if the system runs from a medium, and has a disk to
  // install on.
  virtual bool mustInstall() = 0;
  // Returns true if process 1 holds the promise of a reset, whether or not its caller got an
  // answer.
  virtual bool mustReset() = 0;
  // Called when the boot failed for these reasons: a system on trial makes way for the other one.
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

  // Continues at the predecessor's stage, or starts. Called once, when all dependencies of the
  // tasks exist. kLost: the config was lost with the predecessor's records, so a running machine
  // boots again; running services are adopted.
  void begin(Records records = Records::kThere);

  void reboot();
  void shutdown();
  // The same after a delay: apid, which stops first, must still deliver the answer to the caller.
  void rebootSoon();
  // The same for callers of the API; they resolve when process 1 holds the request. In a container
  // the container exits, and its launcher decides whether to start it again.
  kj::Promise<void> acceptReboot();
  kj::Promise<void> acceptRebootFor(kj::StringPtr reason);  // a constant
  kj::Promise<void> acceptShutdown();
  // The same after a reset was promised (machined/disk/volumes/node-reset.h).
  kj::Promise<void> acceptReset();
  // Resolves when process 1 holds the intention; from then on a new brain shuts the machine down.
  // This and rebootSoon() do nothing once a reset or another shutdown is intended: a config that
  // goes back reboots without a caller, and must not replace what a caller has requested.
  kj::Promise<void> intendReboot();

  // Returns true if the boot ended with an error; a new brain knows this from its start.
  bool hasFailed() const { return progress.stage == Progress::Stage::FAILED; }

  // Returns the running sequence; between two sequences, the next one.
  kj::String sequenceOrNext() const;

 private:
  Dependencies deps;
  Progress progress;
  kj::TaskSet tasks;

  kj::Promise<void> live();
  kj::Promise<void> install();
  void reached(Progress::Stage stage, kj::Vector<kj::String> problems = {});
  void bootFailed(kj::Exception&& e);
  void beginShutdown(Progress::Stage stage, kj::StringPtr reason);
  kj::Promise<void> runShutdown(Progress::Stage stage, kj::String reason);
  kj::Promise<void> accept(Progress::Stage stage, kj::StringPtr reason);
  kj::Promise<void> intend(Progress::Stage stage);
  void soon(Progress::Stage stage, kj::StringPtr reason);
  void taskFailed(kj::Exception&& e) override;
};

}  // namespace talos::machined
