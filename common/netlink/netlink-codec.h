// rtnetlink messages as bytes: encoded from changes, decoded into links, addresses, routes, rules
// and neighbours. Pure.
//
// eachMessage() takes any bytes: lengths are checked against the bytes received, an attribute that
// is too short for its type is ignored, and a message that cannot be read is reported, never
// trusted. Formats: RFC 3549 and the kernel's linux/rtnetlink.h; host byte order, addresses in
// network order.
#pragma once

#include <kj/function.h>

#include "common/netlink/netlink-connections.h"
#include "common/netlink/netlink.h"

struct nlmsghdr;

namespace talos::netlink {

// Builds a message. Attributes are appended in order; more than 8 KiB is an error
// (kInvalidArgument). The memory is zeroed at the end, because it may contain a key.
class MessageBuilder {
 public:
  MessageBuilder(uint16_t type, uint16_t flags);
  ~MessageBuilder() noexcept(false);
  KJ_DISALLOW_COPY(MessageBuilder);

  // Appends the zeroed fixed header after the netlink header (or, inside a nest, a further header).
  template <typename T>
  T& header() {
    return *static_cast<T*>(extra(sizeof(T)));
  }

  void put(uint16_t attribute, kj::ArrayPtr<const kj::byte> bytes);
  void putU8(uint16_t attribute, uint8_t value);
  void putU16(uint16_t attribute, uint16_t value);
  void putU32(uint16_t attribute, uint32_t value);
  void putU16Big(uint16_t attribute, uint16_t value);    // in network order
  void putU32Big(uint16_t attribute, uint32_t value);    // in network order
  void putText(uint16_t attribute, kj::StringPtr text);  // with its NUL
  template <typename F>
  void nest(uint16_t attribute, F&& fill) {
    auto start = begin(attribute);
    fill();
    end(start);
  }

  // Returns the message; the socket fills in the sequence number.
  kj::Array<kj::byte> finish();

 private:
  static constexpr size_t kMost = 8192;  // bytes
  uint64_t buffer[kMost / sizeof(uint64_t)];
  nlmsghdr* message;
  void* extra(size_t size);
  size_t begin(uint16_t attribute);
  void end(size_t start);
  size_t room(size_t wanted) const;
};

// Returns the request of rtnetlink that makes the change, with NLM_F_ACK. Throws kInvalidArgument
// for a name that is too long. Not for SetWireguard: see netlink-wireguard.h.
kj::Array<kj::byte> encode(const Change& change);
kj::Array<kj::byte> encodeLinkDump();
kj::Array<kj::byte> encodeAddressDump();
kj::Array<kj::byte> encodeRouteDump(uint32_t table);  // RT_TABLE_UNSPEC for all tables

// Result of a request: code 0 is success.
struct Ack {
  int code = 0;
  kj::String message;
};
// End of a dump.
struct Done {
  int code = 0;
  kj::String message;
};
// An RTM_DEL*.
struct Removed {
  uint16_t type;
};
struct Other {
  uint16_t type;
};
// A message of generic netlink, for the codec of its family, or of netfilter, whose fixed header
// has the same length: there `family` is the type of the message. May hold keys, so it is zeroed at
// the end.
struct Generic {
  uint16_t family = 0;
  uint8_t command = 0;
  kj::Array<uint64_t> attributes;  // unchanged, from the first one on
  size_t size = 0;                 // in bytes
  Generic() = default;
  Generic(Generic&&) = default;
  Generic& operator=(Generic&&) = default;
  ~Generic() noexcept(false);
};

struct Message {
  uint32_t sequence = 0;
  uint16_t flags = 0;
  kj::OneOf<Link, Address, Route, Rule, Neighbour, Ack, Done, Removed, Other, Generic, Connection>
      body;
};
// Calls `handle` with each message of one datagram, of rtnetlink, of generic netlink and netfilter,
// or of sock_diag (whose numbers mean other things). Returns why reading stopped, if it stopped
// before the end.
enum class Format { kRoute, kGeneric, kSockets };
kj::Maybe<kj::String> eachMessage(kj::ArrayPtr<const kj::byte> datagram, Format format,
                                  kj::FunctionParam<void(Message&&)> handle);
// Decodes an RTM_NEWLINK; nullptr if it is shorter than its fixed header.
kj::Maybe<Link> decodeLink(const nlmsghdr* message);
// Returns the kinds of objects that a multicast datagram of rtnetlink reports as changed, without
// their new state.
Notice noticeOf(kj::ArrayPtr<const kj::byte> datagram);

}  // namespace talos::netlink
