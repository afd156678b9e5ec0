// A machine of the model: its power, its boot, process 1 and the brain of one life after the other.
//
// The brain is the node's own code: Upgrader with all its parts, and the client of etcd-supervisor.
// The model is of what surrounds it: time that a boot takes, the disk (disk.h), and process 1,
// which restarts the brain and ends a trial that lasts too long.
#pragma once

#include "machined/process1/test-process1.h"
#include "machined/resources/store.h"
#include "tests/tier/disk.h"
#include "tests/tier/schedule.h"

namespace talos::supervisor {
struct Node;
}

namespace talos::tier {

class Brain;
class Tier;

kj::String versionOf(unsigned image);

class Machine final : private kj::TaskSet::ErrorHandler {
 public:
  Machine(Tier& tier, unsigned index, kj::Maybe<supervisor::Node&> member);
  ~Machine() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Machine);

  Tier& tier;
  const unsigned index;
  const kj::String address;
  kj::Maybe<supervisor::Node&> member;  // nullptr on a worker
  Disk disk{*this};

  // --- this boot
  bool on = false;
  unsigned boots = 0;
  install::Slot running = install::Slot::kA;
  bool isOnTrial = false;  // as the boot loader has started it
  kj::Own<machined::FakeMachine> process1;
  machined::Store* store = nullptr;  // outlives the brain, as process 1 keeps it
  kj::Own<Brain> brain;              // null while it restarts, or never runs

  // --- what the judges know
  bool isAway = false;  // it went by an upgrade, and is not back yet
  kj::TimePoint awaySince = kj::origin<kj::TimePoint>();
  bool hasLeft = false;       // its member left etcd, and has not joined again
  unsigned accepted = 0;      // image of the last request that the node has accepted
  bool isRolledBack = false;  // an operator has requested that since
  bool isLost = false;        // it has failed, and stays off
  unsigned cured = 0;         // image whose sickness an operator has mended
  kj::TimePoint turnTaken = kj::origin<kj::TimePoint>();

  kj::String bootId() const { return kj::str("boot-", boots); }
  unsigned image() { return disk.imageOf(running); }
  Sickness sicknessOf(unsigned image) const;
  Sickness sickness() { return sicknessOf(image()); }

  // Called by the tier, never by the work of this machine.
  void powerOn();
  void powerOff();
  void crashMachined();
  // Reboots after the services have stopped.
  enum class Reboot { kUpgrades, kGivesUp, kOther };
  void reboot(Reboot cause);

  // Makes the next durable write meet a power cut.
  enum class ArmedCut { kNone, kBefore, kAfter };
  void armCut(ArmedCut cut) { armedCut = cut; }
  ArmedCut takeArmedCut();
  kj::Promise<void> cutNow();  // does not resolve
  // Runs `work` in this boot.
  void later(kj::Duration after, kj::Function<void()> work);
  void loseEphemeral();
  void beginServices();  // etcd-supervisor and etcd

 private:
  kj::Maybe<kj::Own<kj::TaskSet>> work;  // of this boot
  ArmedCut armedCut = ArmedCut::kNone;
  bool isRebooting = false;

  void taskFailed(kj::Exception&& e) override;
  void add(kj::Promise<void> promise);
  kj::Promise<void> live();
  kj::Promise<void> endTrial(unsigned seconds);
  kj::Promise<void> crashAgainAndAgain();
};

}  // namespace talos::tier
