// Runs the real process 1 as process 1 of a new pid namespace on an empty root, with a brain that
// hands its end of the socket to the test. So the test is the brain: it sends any bytes, kills the
// brain by its pid and gets the next brain's socket. Needs root. Nothing outlives the object.
#pragma once

#include <kj/common.h>

#include <string>
#include <vector>

#include "machined/process1/init/init-protocol.h"

namespace talos::process1 {

struct Received {
  Report report = {};
  int fd = -1;  // owned by the receiver
};

struct SpawnText {
  std::vector<std::string> argv;
  std::vector<std::string> environment;
  std::string cgroup;
  int output = -1;
  std::vector<std::pair<int, int>> passed;  // descriptor, number
};

class Harness {
 public:
  struct Options {
    bool brainExists = true;
    int64_t termGraceMs = 10'000;
    int64_t tickMs = 1000;
    unsigned missedBeats = 15, missedAtStart = 60, actionBeginsWithin = 30, actionEndsWithin = 240,
             trial = 0, unfedAfter = 180;
    bool disk = false;    // something that looks like a disk's file system is mounted on /disk
    std::string cgroup;   // not empty: a cgroup v2 tree is mounted and this cgroup is the root
    std::string program;  // init-test-child.cc; empty: in this program's folder, or in init/ of it
  };
  Harness() : Harness(Options{}) {}
  explicit Harness(Options options);
  ~Harness() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(Harness);

  struct Reporter {
    int pid = -1;     // in this process's namespace
    int socket = -1;  // of a brain: its descriptor 3
  };
  // Returns the next process that reports: a brain or a child that waits. Fails the test after 20
  // s.
  Reporter next();
  // Waits until a line with this text is on the console.
  void waitForConsole(const char* errorText);
  // Waits until process 1 has ended; returns its wait status.
  int waitForEnd();

  int pid() const { return init; }
  // Returns a child that runs init-test-child.cc with these arguments and can report to this
  // harness.
  SpawnText child(std::vector<std::string> arguments) const;
  size_t openDescriptors() const;
  size_t watchedDescriptors() const;  // number of descriptors that process 1 waits for
  void killNow(int pid);
  static constexpr const char* kChild = "/child";

 private:
  Options options;
  int init = -1;
  int listening = -1;
  int console = -1;
  std::string name, childProgram;
  std::string consoleText;
  std::vector<int> connections;
  void become();
};

// Runs `function` as process 1 of a new pid namespace, on an empty root and in a mount namespace
// with no mounts but the root and /proc, so that it may unmount them. Returns its wait status.
int onEmptyRoot(int (*function)());

// --- the brain's side, byte by byte
// --------------------------------------------------------------------
void sendBytes(int socket, const void* bytes, size_t size, const std::vector<int>& fds = {});
void send(int socket, RequestKind kind, uint32_t id, const char* name, uint32_t argument = 0,
          uint64_t sequence = 0, const std::vector<int>& fds = {});
void sendSpawn(int socket, uint32_t id, const char* slot, const SpawnText& what);
// Returns the next report; fails the test after 20 s or at the end of the stream.
Received receive(int socket);
// Reads reports up to kReady.
std::vector<Received> inventory(int socket);
// Reads everything up to the end of the stream.
std::string readAll(int fd);
// Waits until no process has this pid (in this namespace): it ended and was reaped.
bool waitUntilGone(int pid);

}  // namespace talos::process1
