#include "common/text/foreign-text.h"
// Reads the attributes of netlink messages, for the codec's units only. Every length is checked
// against the bytes received; an attribute that is too short for its type is ignored.
#pragma once

#include <kj/array.h>
#include <kj/string.h>
#include <libmnl/libmnl.h>
#include <string.h>

namespace talos::netlink {

inline kj::ArrayPtr<const kj::byte> payload(const nlattr* attribute) {
  return kj::arrayPtr(static_cast<const kj::byte*>(mnl_attr_get_payload(attribute)),
                      mnl_attr_get_payload_len(attribute));
}

template <typename T>
kj::Maybe<T> number(const nlattr* attribute) {
  auto bytes = payload(attribute);
  if (bytes.size() < sizeof(T)) return nullptr;
  T value;
  memcpy(&value, bytes.begin(), sizeof(T));
  return value;
}

template <typename T>
void read(const nlattr* attribute, T& target) {
  KJ_IF_MAYBE (value, number<T>(attribute)) target = *value;
}

// Returns the text up to the first NUL, or all of it.
inline kj::String text(kj::ArrayPtr<const kj::byte> bytes) {
  auto chars = bytes.asChars();
  return fieldText(chars.slice(0, strnlen(chars.begin(), chars.size())));
}

// Calls handle(type, attribute) for each complete attribute in [start, end).
template <typename F>
void eachIn(const void* start, const char* end, F&& handle) {
  auto attribute = static_cast<const nlattr*>(start);
  while (mnl_attr_ok(attribute, end - reinterpret_cast<const char*>(attribute))) {
    handle(mnl_attr_get_type(attribute), attribute);
    attribute = mnl_attr_next(attribute);
  }
}

// Calls `handle` for the attributes after a fixed header of `skip` bytes.
template <typename F>
void eachAttribute(const nlmsghdr* message, size_t skip, F&& handle) {
  if (mnl_nlmsg_get_payload_len(message) < skip) return;
  // Not mnl_nlmsg_get_payload_tail(): its result is rounded up, so it can be after the end of the
  // datagram.
  eachIn(mnl_nlmsg_get_payload_offset(message, skip),
         reinterpret_cast<const char*>(message) + message->nlmsg_len, handle);
}

template <typename F>
void eachNested(const nlattr* parent, F&& handle) {
  auto start = static_cast<const char*>(mnl_attr_get_payload(parent));
  eachIn(start, start + mnl_attr_get_payload_len(parent), handle);
}

template <typename T>
kj::Maybe<T> fixedHeader(const nlmsghdr* message) {
  if (mnl_nlmsg_get_payload_len(message) < sizeof(T)) return nullptr;
  T header;
  memcpy(&header, mnl_nlmsg_get_payload(message), sizeof(T));
  return header;
}

}  // namespace talos::netlink
