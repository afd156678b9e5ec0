// Owns a child process through its pidfd, which never refers to another process.
#pragma once

#include <kj/async-unix.h>
#include <kj/io.h>
#include <kj/string.h>

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

}  // namespace talos::cluster
