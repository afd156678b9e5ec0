// Owns a child process through its pidfd, which cannot come to mean another process.
#pragma once

#include <kj/async-unix.h>
#include <kj/io.h>
#include <kj/string.h>

namespace talos::cluster {

// The exit of a process.
struct Exit {
  bool killed = false;
  int status = 0;  // exit status, or the signal's number

  // "exited with status 0", "killed by signal 9"
  kj::String describe() const;
};

class ChildProcess {
 public:
  ChildProcess(kj::UnixEventPort& port, int pid, kj::AutoCloseFd pidfd)
      : port(port), processId(pid), pidfd(kj::mv(pidfd)) {}
  // Sends SIGKILL and waits for the exit, unless it was observed before; at most 5 s, for a process
  // that hangs in the kernel.
  ~ChildProcess() noexcept(false);
  KJ_DISALLOW_COPY_AND_MOVE(ChildProcess);

  int pid() const { return processId; }
  kj::Promise<Exit> onExit();  // once
  void signal(int number);
  // SIGSTOP; returns when all its threads have stopped, which takes as long as an interrupt.
  // DeadlineExceeded after half a second, if one hangs in the kernel, and then it continues. For
  // the program's first thread.
  void stop();

 private:
  kj::UnixEventPort& port;
  int processId;
  kj::AutoCloseFd pidfd;
  bool ended = false;
};

}  // namespace talos::cluster
