// The loop of process 1: starts children on request, reaps, holds descriptors, restarts the brain.
//
// The state is three fixed tables (children, held descriptors, replies that wait for the socket);
// nothing is allocated after start. Process 1 never waits for the brain: sends do not block, unsent
// replies stay in the tables, and while too many replies wait no more requests are read. All
// waiting is in one epoll_wait, of at most a tick.
//
// A brain that hangs is killed and restarted as after a crash. Ctrl-alt-del, the power button and
// SIGTERM are passed to the brain; if it does not carry them out in time, or cannot be started,
// process 1 carries them out itself. The power button is reported on a socket that the brain has
// opened and handed over. The brain also hands over the machine's watchdog (held-watchdog.h), which
// resets a machine whose kernel or process 1 stands still, or that has had no working brain for
// three minutes.
//
// A crash of the brain at any line: the requests that it had sent are still carried out, its
// replies are thrown away, and the successor, started immediately, gets the inventory: running
// children, held descriptors, unacknowledged exits. Process 1 itself parses no foreign bytes but
// those of the brain, and refuses those that fail request-check.h.
#pragma once

#include <signal.h>

#include "machined/process1/init/init-console.h"
#include "machined/process1/init/init-protocol.h"
#include "machined/process1/init/init-spawn.h"

namespace talos::process1 {

struct Settings {
  const char* brain = "/usr/bin/machined";
  char* const* brainEnvironment = nullptr;    // ends with nullptr
  const char* cgroupRoot = "/sys/fs/cgroup";  // "": no cgroups
  // Root of the cgroups of version 1, for memory only, on a host that has them; "": not used.
  const char* memoryRoot = "";
  // Target of a brain's output; -1: process 1 copies it line by line to the kernel log.
  int brainOutput = -1;
  int userData = -1;             // held from the start as kUserData; -1: not held
  int64_t termGraceMs = 10'000;  // at the end of the machine: between SIGTERM and SIGKILL
  bool backsOff = true;  // after the sixth death of a brain within 10 s, the next start waits
  // Limits in ticks: brain-watchdog.cc. A brain restores its predecessor's state before its first
  // beat, which takes longer with more state and on a slower machine.
  int64_t tickMs = kBeatMs;
  unsigned missedBeats = 15, missedAtStart = 60;
  // Limits of a power action: until the brain has begun it, and from then until the machine is
  // down. Stopping services takes at most 50 s, unmounting 35 s; the rest is for a slow disk.
  unsigned actionBeginsWithin = 30, actionEndsWithin = 240;
  // Ticks without a beat, over all brains, after which the machine's watchdog is no longer fed.
  // Longer than a brain that hangs while it starts, and its successor, may take.
  unsigned unfedAfter = 180;
  unsigned trial = 0;  // until kSettled must be held; 0: this system is not on trial
};

class Loop {
 public:
  Loop(const Settings& settings, const Console& console);
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Runs for ever; ends only with the machine.
  [[noreturn]] void run();

 private:
  enum class State : uint8_t {
    kFree,      // next: kStarting
    kStarting,  // exec has no outcome yet. Next: kRunning, kEnded; kFree if the start has failed
    kRunning,   // next: kEnded
    kEnded,     // the exit is not acknowledged yet. Next: kFree
  };
  struct Child {
    State state = State::kFree;
    bool announced = false;     // the current brain knows of it, as a survivor or by a reply
    bool exitReported = false;  // ended: the exit was sent to the current brain
    uint32_t replyTo = 0;       // starting: id of the request that waits for the outcome
    int pid = -1;
    int pidfd = -1;
    int outcome = -1;  // starting: pipe with the outcome of exec
    int status = 0;    // ended
    uint64_t sequence = 0;
    char name[kNameSize] = {};
  };
  struct Held {
    int fd = -1;
    char name[kNameSize] = {};
  };
  struct Reply {
    uint32_t id;
    int code;
    int child;  // index of the started child, or -1
    char text[kReasonSize];
  };
  // Part of the inventory that the brain gets next; in this order, from kWelcome for each brain.
  enum class Stage : uint8_t { kWelcome, kSurvivors, kHeld, kReady, kRunning };
  enum class Kind : uint32_t { kSignals, kBrain, kBrainOutput, kOutcome, kPowerButton };
  struct Packet {
    size_t size = 0;
    int fds[kMaxPassed + 1] = {};
    unsigned fdCount = 0;
  };

  Settings settings;
  Console console;
  int epoll = -1, signals = -1;
  int outputRead = -1, outputWrite = -1;  // the brain's output on 1 and 2, copied to the console
  sigset_t caught;

  // State of the brain.
  int brainSocket = -1;
  int brainPid = -1, brainPidfd = -1, brainOutcome = -1;
  uint64_t brains = 0;
  int64_t brainStarted = 0;  // ms
  int64_t brainDue = 0;      // ms; while no brain runs
  bool cannotStart = false;  // the latest start failed, and no brain has sent anything since
  int64_t deaths[6] = {};    // times of the latest deaths, oldest first
  int64_t backOff = 0;       // ms
  Stage stage = Stage::kWelcome;
  unsigned cursor = 0;  // within the inventory
  bool writeBlocked = false, readBlocked = false;

  Child children[kMaxChildren];
  Held held[kMaxHeld];
  Reply replies[kMaxReplies];  // a ring
  unsigned replyFirst = 0, replyCount = 0;
  uint64_t exits = 0;
  uint32_t pendingActions = 0;    // bits of PowerAction that no brain has begun yet
  uint32_t announcedActions = 0;  // to the current brain
  // State of the watch, in ticks.
  int64_t lastTick = 0;                            // ms
  unsigned missed = 0;                             // since the brain's last beat
  bool beaten = false;                             // the current brain has sent a beat
  bool brainAborted = false, brainKilled = false;  // by the watch
  unsigned beatless = 0;                           // since the latest beat of any brain
  int feedError = 0;         // latest reported error of the machine's watchdog
  unsigned actionTicks = 0;  // since the action was requested, or since it was begun
  uint32_t begun = 0;        // the PowerAction that is being carried out, or 0
  uint32_t newestAction = 0;
  unsigned trialTicks = 0;
  char outputLine[900];
  size_t outputUsed = 0;
  alignas(16) char packet[sizeof(Spawn) + 16];
  char* argv[kMaxStrings + 1];
  char* environment[kMaxStrings + 1];

  void setUp();
  void listenTo(int fd, Kind kind, unsigned index, uint32_t events);
  void unwatchAndClose(int& fd);
  void handle(Kind kind, unsigned index, uint32_t events);

  void startBrain();
  void brainDied(int status);
  void forgetBrain();
  void copyBrainOutput();

  void onSignals();
  void reap();
  void onOutcome(unsigned index);
  void childEnded(Child& child, int status);
  void release(Child& child);

  void readRequests(bool toTheEnd);
  bool receive(Packet& received);
  void carryOut(Packet& received);
  void spawn(const Spawn& request, const Packet& received);
  void hold(const Request& request, int fd);
  void drop(const Request& request);
  void release(Held& place);
  void signalChild(const Request& request);
  void acknowledge(uint64_t sequence);
  void reply(uint32_t id, int code, const char* text, int child = -1);

  unsigned owedReplies() const;

  // brain-watchdog.cc
  void watch();
  void watchBrain();
  void feed();
  void watchPowerActions();
  void watchTrial();
  [[noreturn]] void end(unsigned command);  // of reboot(2)
  void requestPowerAction(PowerAction action);
  void powerActionBegun(uint32_t action);
  void onPowerButton();

  void pump();
  bool sendNext();
  bool sendInventory();
  bool sendExit();
  bool send(Report& report, int fd = -1);
  Child* findRunning(const char* name);
  Held* findHeld(const char* name);
  unsigned indexOf(const Child& child) const { return static_cast<unsigned>(&child - children); }
};

}  // namespace talos::process1
