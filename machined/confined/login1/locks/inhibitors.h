// Inhibitor locks of programs that want to know before the node shuts down, as
// org.freedesktop.login1 has them (systemd: "Inhibitor Locks"): their checks, their holders, and
// the holders that a shutdown waits for. Pure.
//
// Only locks that delay a shutdown are given: the node goes down when its operator says so, it does
// not sleep, and its keys are its operator's. Others are refused with a message.
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

  // InvalidArgument for what is not given; ResourceExhausted when there are too many.
  Id add(Inhibitor lock);
  void remove(Id id);  // one that is not there is fine
  bool empty() const { return locks.size() == 0; }
  // "kubelet (pid 812)" or, where that is not known, "kubelet"; by their age.
  kj::Vector<kj::String> holders() const;

  auto begin() const { return locks.begin(); }
  auto end() const { return locks.end(); }

 private:
  kj::TreeMap<Id, Inhibitor> locks;
  Id last = 0;
};

}  // namespace talos::login1
