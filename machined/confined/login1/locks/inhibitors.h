// Inhibitor locks of programs that want to be notified before the node shuts down, as in
// org.freedesktop.login1 (systemd: "Inhibitor Locks"): checks the locks, and lists their holders,
// for which a shutdown waits. Pure.
//
// Only locks that delay a shutdown are granted: the operator decides when the node shuts down, the
// node does not sleep, and its keys are the operator's. Other locks are refused with a message.
#pragma once

#include <kj/map.h>
#include <kj/string.h>
#include <kj/time.h>
#include <kj/vector.h>

namespace talos::login1 {

constexpr size_t kMostInhibitors = 64;
constexpr size_t kMostInhibitorText = 256;  // bytes of who and why

struct Inhibitor {
  kj::String what, who, why, mode;
  uint32_t uid = 0, pid = 0;  // pid 0: it is in another PID namespace
  kj::Date since = kj::UNIX_EPOCH;
};

class Inhibitors {
 public:
  using Id = uint64_t;

  // Throws InvalidArgument for a lock that is not granted; ResourceExhausted when there are too
  // many.
  Id add(Inhibitor lock);
  void remove(Id id);  // an unknown id is ignored
  bool empty() const { return locks.size() == 0; }
  // Returns the holders, oldest first: "kubelet (pid 812)", or "kubelet" if its pid is not known.
  kj::Vector<kj::String> holders() const;

  auto begin() const { return locks.begin(); }
  auto end() const { return locks.end(); }

 private:
  kj::TreeMap<Id, Inhibitor> locks;
  Id last = 0;
};

}  // namespace talos::login1
