// A line to a node on which everything takes its time, as to the other side of the world: a process
// that forwards TCP connections, and every byte of both directions later. It loses nothing and has
// any bandwidth.
#pragma once

#include <sys/types.h>

#include <string>

namespace talos {

class DelayedLine {
 public:
  // From port 50000 of one address of this host to that of another one.
  DelayedLine(const std::string& from, const std::string& to, unsigned milliseconds);
  ~DelayedLine();
  DelayedLine(const DelayedLine&) = delete;

 private:
  pid_t pid;
};

}  // namespace talos
