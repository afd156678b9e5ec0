// A slow line to a node, as to the other side of the world: a process that forwards TCP
// connections, and delays every byte of both directions. It loses nothing and does not limit the
// bandwidth.
#pragma once

#include <sys/types.h>

#include <string>

namespace talos {

class DelayedLine {
 public:
  // Forwards from port 50000 of one address of this host to port 50000 of another.
  DelayedLine(const std::string& from, const std::string& to, unsigned milliseconds);
  ~DelayedLine();
  DelayedLine(const DelayedLine&) = delete;

 private:
  pid_t pid;
};

}  // namespace talos
