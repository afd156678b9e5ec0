// The id of a request: of all calls that a client makes with one Node capability (rpc/node.capnp),
// on every node and in every program that serves them. The client chooses it, or else the apid that
// it calls. An id grants no right, and two clients may use the same id. Pure.
#pragma once

#include <ctype.h>
#include <kj/string.h>
#include <stdint.h>

namespace talos {

constexpr size_t kLongestRequestId = 64;

// Returns true for 1 to 64 letters, digits, '-', '_' and '.': text that logs and a shell accept
// unquoted.
inline bool isRequestId(kj::StringPtr text) {
  if (text.size() == 0 || text.size() > kLongestRequestId) return false;
  for (unsigned char c : text) {
    if (c >= 0x80 || (!isalnum(c) && c != '-' && c != '_' && c != '.')) return false;
  }
  return true;
}

// Makes the ids of one program: "3f2a91c0-17". `start` is random, so that ids of two programs, or
// from before and after a restart, differ.
class RequestIds {
 public:
  explicit RequestIds(uint32_t start) : start(start) {}
  KJ_DISALLOW_COPY_AND_MOVE(RequestIds);

  kj::String next() { return kj::str(kj::hex(start), '-', ++count); }
  // Returns the client's id, or a new one if it is not valid: a trace must not make a call fail.
  kj::String orNext(kj::StringPtr given) { return isRequestId(given) ? kj::str(given) : next(); }

 private:
  uint32_t start;
  uint64_t count = 0;
};

}  // namespace talos
