// The life of the machine: it begins (the sequences initialize and boot), runs, and goes down. One
// that is not installed is installed after initialize, and reboots. Or it cannot go on: then it
// stays as it is, tells why, keeps its API, and nothing reboots.
//
// Each step is given to process 1 when it is taken (machined/boot/boot-progress.h). So a new brain
// goes on with the sequence that its predecessor was in, from that sequence's start; one that finds
// a machine that failed says so again and starts nothing; and one that finds a machine that was
// told to go down takes it down. Who asks for the end of the machine while a sequence runs takes
// over from that sequence.
#pragma once

#include "machined/boot/boot-progress.h"
#include "machined/boot/machine-stage.h"
#include "machined/boot/sequences.h"
#include "machined/logs/node-console.h"

namespace talos::machined {

enum class Records { kThere, kLost };

class MachineLife final : private kj::TaskSet::ErrorHandler {
 public:
  struct Dependencies {
    Process1& process1;
    kj::Timer& timer;
    Sequencer& sequencer;
    MachineStatus& status;
    kj::Function<Sequence(kj::StringPtr name)> sequence;
    kj::Function<void(kj::StringPtr line, Tone tone)> say;
    kj::Function<void()> keepApi;  // somebody has to reach a machine that cannot go on
    kj::Function<void()> settled;  // nothing of the start is needed any more
    // The machine goes down, and why; before anything is stopped for it.
    kj::Function<kj::Promise<void>(kj::StringPtr reason)> ends =
        [](kj::StringPtr) -> kj::Promise<void> { return kj::READY_NOW; };
    // Asked when initialize is over: the system runs from a medium, and has a disk to go to.
    kj::Function<bool()> mustInstall = []() { return false; };
    // Process 1 holds the promise of a reset, whether or not its caller was answered.
    kj::Function<bool()> mustReset = []() { return false; };
    // It cannot go on, for these reasons: a system on trial makes way for the other one.
    kj::Function<void(kj::StringPtr reasons)> failed = [](kj::StringPtr) {};
  };
  explicit MachineLife(Dependencies deps);
  KJ_DISALLOW_COPY_AND_MOVE(MachineLife);

  // Where the predecessor was, or at the beginning. Once, when all that the tasks need is there.
  // kLost: the config went with the records of the predecessor, so a machine that was up comes up
  // once more; what runs is adopted.
  void begin(Records records = Records::kThere);

  void reboot();
  void shutdown();
  // The same a little later: the answer to who asked for it has to get through apid, which ends
  // first.
  void rebootSoon();
  // The same for callers of the API, resolving when a crash cannot make it forgotten. In a
  // container it is the container that ends, and whoever started it starts it again or does not.
  kj::Promise<void> acceptReboot();
  kj::Promise<void> acceptRebootFor(kj::StringPtr reason);  // a constant
  kj::Promise<void> acceptShutdown();
  // The same when a reset was promised (machined/disk/volumes/node-reset.h).
  kj::Promise<void> acceptReset();
  // Resolves when process 1 knows: from there on a new brain takes the machine down.
  kj::Promise<void> intendReboot();

  // Its boot ended with an error; known to a new brain from the start.
  bool hasFailed() const { return progress.stage == Progress::Stage::FAILED; }

  // The sequence that runs; between two of them there is a moment that belongs to the next one.
  kj::String sequenceOrNext() const;

 private:
  Dependencies deps;
  Progress progress;
  kj::TaskSet tasks;

  kj::Promise<void> live();
  kj::Promise<void> install();
  void reached(Progress::Stage stage, kj::Vector<kj::String> problems = {});
  void cannotGoOn(kj::Exception&& e);
  void goDown(Progress::Stage stage, kj::StringPtr reason);
  kj::Promise<void> takeDown(Progress::Stage stage, kj::String reason);
  kj::Promise<void> accept(Progress::Stage stage, kj::StringPtr reason);
  kj::Promise<void> intend(Progress::Stage stage);
  void soon(Progress::Stage stage, kj::StringPtr reason);
  void taskFailed(kj::Exception&& e) override;
};

}  // namespace talos::machined
