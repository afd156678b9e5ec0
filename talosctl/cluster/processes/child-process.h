// A child process by its pidfd: its number cannot become another process's.
#pragma once

#include <kj/async-unix.h>
#include <kj/io.h>
#include <kj/string.h>

namespace talos::cluster {

// How it ended.
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
  // SIGKILL, and waits for the end, if nobody has seen it end; at most 5 s, for one that hangs in
  // the kernel.
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
