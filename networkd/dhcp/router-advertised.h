// Resolvers and search domains that routers have advertised, each until its lifetime is over (RFC
// 8106 §5, 6). Pure.
//
// Any machine of the link can advertise, so at most 16 of each are kept; the oldest is dropped
// first.
#pragma once

#include <kj/time.h>

#include "networkd/dhcp/router-advertisement.h"

namespace talos::networkd::dhcp {

class Advertised {
 public:
  // Returns true if the message changed the result of resolvers(), search() or other().
  bool hear(const Advertisement& message, kj::TimePoint now);
  bool expire(kj::TimePoint now);
  kj::Maybe<kj::TimePoint> deadline() const;

  kj::Vector<Ip> resolvers() const;
  kj::Vector<kj::String> search() const;
  // Returns true if a router said that DHCPv6 has more settings.
  bool other() const { return information; }
  bool any() const { return heard; }

 private:
  template <typename T>
  struct Held {
    T value;
    kj::Maybe<kj::TimePoint> until;  // nullptr: for ever
  };
  kj::Vector<Held<Ip>> servers;
  kj::Vector<Held<kj::String>> domains;
  bool information = false, heard = false;

  template <typename T>
  static bool put(kj::Vector<Held<T>>& list, T value, uint32_t lifetime, kj::TimePoint now);
  template <typename T>
  static bool drop(kj::Vector<Held<T>>& list, kj::TimePoint now);
};

}  // namespace talos::networkd::dhcp
