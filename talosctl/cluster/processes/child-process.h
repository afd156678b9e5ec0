// Owns a child process through its pidfd, which never refers to another process, and runs programs
// for a cluster's supervisor.
#pragma once

#include <kj/async-unix.h>
#include <kj/io.h>
#include <kj/string.h>
#include <kj/vector.h>

namespace talos::cluster {

// The exit of a process.
struct Exit {
  bool killed = false;
  int status = 0;  // exit status, or the signal's number

  // Returns "exited with status 0" or "killed by signal 9".
  kj::String describe() const;
};

class ChildProcess {
 public:
  ChildProcess(kj::UnixEventPort& port, int pid, kj::AutoCloseFd pidfd)
      : port(port), processId(pid), pidfd(kj::mv(pidfd)) {}
  // Sends SIGKILL and waits for the exit, unless the exit was observed before; at most 5 s, as a
  // process may hang in the kernel.
  ~ChildProcess() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(ChildProcess);

  int pid() const { return processId; }
  kj::Promise<Exit> onExit();  // to be called once
  void signal(int number);
  // Sends SIGSTOP and returns when all threads have stopped, which takes as long as an interrupt.
  // DeadlineExceeded after half a second, if a thread hangs in the kernel; then the process
  // continues. Only for the program's first thread.
  void stop();

 private:
  kj::UnixEventPort& port;
  int processId;
  kj::AutoCloseFd pidfd;
  bool ended = false;
};

// Runs a program of the build root's tree, or of the host, for a cluster's supervisor: the program
// ends with the supervisor (PR_SET_PDEATHSIG), which watches its pidfd.

// Returns the command line of a program with this path: in `root`, otherwise in this build's root,
// otherwise on the host. NotFound names the places searched, and the remedy.
kj::Vector<kj::String> findTool(kj::StringPtr root, kj::StringPtr path);

struct ToolSettings {
  int input = -1;                               // standard input; -1: /dev/null
  int errors = 2;                               // standard error; output goes to /dev/null
  kj::ArrayPtr<const int> inherited = nullptr;  // further descriptors, under their own numbers
  int network = -1;        // network namespace to enter; -1: that of the caller
  bool ownMounts = false;  // a mount namespace whose mounts do not propagate
};

class ToolProcess {
 public:
  ToolProcess(kj::UnixEventPort& port, kj::ArrayPtr<kj::String> command,
              const ToolSettings& settings);
  // The destructor ends the program as that of ChildProcess does.
  KJ_DISALLOW_COPY_AND_MOVE(ToolProcess);

  int pid() const { return process->pid(); }
  // Resolves to nullptr for status 0, otherwise to "exited with status 1" or "killed by signal 9".
  // To be called once.
  kj::Promise<kj::Maybe<kj::String>> onExit();

 private:
  kj::Own<ChildProcess> process;

  static kj::Own<ChildProcess> start(kj::UnixEventPort& port, kj::ArrayPtr<kj::String> command,
                                     const ToolSettings& settings);
};

}  // namespace talos::cluster
