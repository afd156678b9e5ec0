#include "common/netlink/netlink-codec.h"

#include <errno.h>
#include <kj/debug.h>
#include <libmnl/libmnl.h>
#include <linux/genetlink.h>
#include <linux/if_addr.h>
#include <linux/sock_diag.h>
#include <string.h>

#include <algorithm>

#include "common/base/error.h"
#include "common/netlink/netlink-attributes.h"

namespace talos::netlink {

// --- building
MessageBuilder::MessageBuilder(uint16_t type, uint16_t flags)
    : message(mnl_nlmsg_put_header(buffer)) {
  message->nlmsg_type = type;
  message->nlmsg_flags = flags;
}

MessageBuilder::~MessageBuilder() noexcept(false) {
  explicit_bzero(buffer, message->nlmsg_len);
}

size_t MessageBuilder::room(size_t wanted) const {
  if (message->nlmsg_len + MNL_ALIGN(wanted) + MNL_ATTR_HDRLEN > kMost) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("a netlink message would be larger than ", kMost, " bytes"));
  }
  return kMost;
}

void* MessageBuilder::extra(size_t size) {
  room(size);
  return mnl_nlmsg_put_extra_header(message, size);
}

void MessageBuilder::put(uint16_t attribute, kj::ArrayPtr<const kj::byte> bytes) {
  mnl_attr_put_check(message, room(bytes.size()), attribute, bytes.size(), bytes.begin());
}
void MessageBuilder::putU8(uint16_t attribute, uint8_t value) {
  put(attribute, kj::arrayPtr(&value, 1));
}
void MessageBuilder::putU16(uint16_t attribute, uint16_t value) {
  put(attribute, kj::arrayPtr(reinterpret_cast<kj::byte*>(&value), sizeof(value)));
}
void MessageBuilder::putU32(uint16_t attribute, uint32_t value) {
  put(attribute, kj::arrayPtr(reinterpret_cast<kj::byte*>(&value), sizeof(value)));
}
void MessageBuilder::putU16Big(uint16_t attribute, uint16_t value) {
  kj::byte bytes[] = {kj::byte(value >> 8), kj::byte(value)};
  put(attribute, bytes);
}
void MessageBuilder::putU32Big(uint16_t attribute, uint32_t value) {
  kj::byte bytes[] = {kj::byte(value >> 24), kj::byte(value >> 16), kj::byte(value >> 8),
                      kj::byte(value)};
  put(attribute, bytes);
}
void MessageBuilder::putText(uint16_t attribute, kj::StringPtr text) {
  put(attribute, kj::arrayPtr(reinterpret_cast<const kj::byte*>(text.cStr()), text.size() + 1));
}

size_t MessageBuilder::begin(uint16_t attribute) {
  room(0);
  auto start = mnl_attr_nest_start(message, attribute);
  return reinterpret_cast<char*>(start) - reinterpret_cast<char*>(message);
}

void MessageBuilder::end(size_t start) {
  mnl_attr_nest_end(message, reinterpret_cast<nlattr*>(reinterpret_cast<char*>(message) + start));
}

kj::Array<kj::byte> MessageBuilder::finish() {
  auto result = kj::heapArray<kj::byte>(MNL_ALIGN(message->nlmsg_len));
  memset(result.begin(), 0, result.size());
  memcpy(result.begin(), message, message->nlmsg_len);
  return result;
}

// --- decoding
namespace {

// Returns an address of this family; nullptr if the length differs.
kj::Maybe<Ip> ipOf(const nlattr* attribute, int family) {
  KJ_IF_MAYBE (ip, Ip::fromBytes(payload(attribute))) {
    if (ip->family() == family) return *ip;
  }
  return nullptr;
}

kj::Maybe<Address> decodeAddress(const nlmsghdr* message) {
  KJ_IF_MAYBE (header, fixedHeader<ifaddrmsg>(message)) {
    if (header->ifa_family != AF_INET && header->ifa_family != AF_INET6) return nullptr;
    Address result;
    result.link = header->ifa_index;
    result.scope = header->ifa_scope;
    result.flags = header->ifa_flags;
    result.prefix.length = header->ifa_prefixlen;
    kj::Maybe<Ip> local, address;
    eachAttribute(message, sizeof(ifaddrmsg), [&](unsigned type, const nlattr* attribute) {
      switch (type) {
        case IFA_LOCAL:
          local = ipOf(attribute, header->ifa_family);
          break;
        case IFA_ADDRESS:
          address = ipOf(attribute, header->ifa_family);
          break;
        case IFA_FLAGS:
          read(attribute, result.flags);
          break;
        case IFA_PROTO:
          read(attribute, result.protocol);
          break;
        default:
          break;
      }
    });
    // IFA_ADDRESS is the other end of a point-to-point link; IFA_LOCAL, where there is one, is
    // ours.
    KJ_IF_MAYBE (ip, local) {
      result.prefix.address = *ip;
    } else KJ_IF_MAYBE (ip, address) {
      result.prefix.address = *ip;
    } else {
      return nullptr;
    }
    if (result.prefix.length > result.prefix.address.bits()) return nullptr;
    return result;
  }
  return nullptr;
}

kj::Maybe<Ip> decodeVia(const nlattr* attribute) {
  auto bytes = payload(attribute);
  if (bytes.size() < 2) return nullptr;
  return Ip::fromBytes(bytes.slice(2, bytes.size()));
}

unsigned decodeMtu(const nlattr* metrics) {
  unsigned mtu = 0;
  eachNested(metrics, [&](unsigned type, const nlattr* attribute) {
    if (type == RTAX_MTU) read(attribute, mtu);
  });
  return mtu;
}

kj::Maybe<Route> decodeRoute(const nlmsghdr* message) {
  KJ_IF_MAYBE (header, fixedHeader<rtmsg>(message)) {
    int family = header->rtm_family;
    if (family != AF_INET && family != AF_INET6) return nullptr;
    Route route;
    route.destination = Prefix::all(family);
    route.destination.length = header->rtm_dst_len;
    if (route.destination.length > route.destination.address.bits()) return nullptr;
    route.table = header->rtm_table;
    route.protocol = header->rtm_protocol;
    route.scope = header->rtm_scope;
    route.type = header->rtm_type;
    route.flags = header->rtm_flags;
    eachAttribute(message, sizeof(rtmsg), [&](unsigned type, const nlattr* attribute) {
      switch (type) {
        case RTA_DST:
          KJ_IF_MAYBE (ip, ipOf(attribute, family)) route.destination.address = *ip;
          break;
        case RTA_GATEWAY:
          route.gateway = ipOf(attribute, family);
          break;
        case RTA_VIA:
          route.gateway = decodeVia(attribute);
          break;
        case RTA_OIF:
          read(attribute, route.link);
          break;
        case RTA_PRIORITY:
          read(attribute, route.metric);
          break;
        case RTA_TABLE:
          read(attribute, route.table);
          break;
        case RTA_PREFSRC:
          route.source = ipOf(attribute, family);
          break;
        case RTA_METRICS:
          route.mtu = decodeMtu(attribute);
          break;
        default:
          break;
      }
    });
    route.destination = route.destination.masked();
    if (route.nowhere()) route.link = 0;  // IPv6 names loopback
    return route;
  }
  return nullptr;
}

// Decodes NLMSG_ERROR, which is also the acknowledgement: a negative errno, the header of the
// request, and attributes.
kj::Maybe<Ack> decodeAck(const nlmsghdr* message) {
  KJ_IF_MAYBE (error, fixedHeader<nlmsgerr>(message)) {
    Ack ack;
    ack.code = error->error < 0 && error->error > -4096 ? -error->error : (error->error ? EIO : 0);
    if (message->nlmsg_flags & NLM_F_ACK_TLVS) {
      size_t skip = sizeof(nlmsgerr);
      if (!(message->nlmsg_flags & NLM_F_CAPPED) && error->msg.nlmsg_len > NLMSG_HDRLEN) {
        // The whole request is repeated before the attributes; its length is as foreign as the
        // rest.
        size_t repeated = MNL_ALIGN(size_t(error->msg.nlmsg_len) - NLMSG_HDRLEN);
        if (repeated > mnl_nlmsg_get_payload_len(message)) return kj::mv(ack);
        skip += repeated;
      }
      eachAttribute(message, skip, [&](unsigned type, const nlattr* attribute) {
        if (type == NLMSGERR_ATTR_MSG) ack.message = text(payload(attribute));
      });
    }
    return kj::mv(ack);
  }
  return nullptr;
}

// Decodes the end of a dump; a dump that fails ends with its errno in NLMSG_DONE.
Done decodeDone(const nlmsghdr* message) {
  Done done;
  KJ_IF_MAYBE (code, fixedHeader<int>(message)) {
    if (*code < 0 && *code > -4096) done.code = -*code;
    if (message->nlmsg_flags & NLM_F_ACK_TLVS) {
      eachAttribute(message, sizeof(int), [&](unsigned type, const nlattr* attribute) {
        if (type == NLMSGERR_ATTR_MSG) done.message = text(payload(attribute));
      });
    }
  }
  return done;
}

// Returns false if the message is shorter than its type needs.
bool decodeBody(const nlmsghdr* message, Message& out) {
  auto set = [&](auto maybe) {
    KJ_IF_MAYBE (value, maybe) {
      out.body = kj::mv(*value);
      return true;
    }
    return false;
  };
  // A message of another family (bridge ports, MPLS, multicast) that uses the same type, or of an
  // unknown type.
  auto other = [&] {
    out.body = Other{message->nlmsg_type};
    return true;
  };
  switch (message->nlmsg_type) {
    case NLMSG_ERROR:
      return set(decodeAck(message));
    case NLMSG_DONE:
      out.body = decodeDone(message);
      return true;
    case RTM_NEWLINK:
      KJ_IF_MAYBE (header, fixedHeader<ifinfomsg>(message)) {
        return header->ifi_family == AF_UNSPEC ? set(decodeLink(message)) : other();
      }
      return false;
    case RTM_NEWADDR:
      return set(decodeAddress(message)) || other();
    case RTM_NEWROUTE:
      return set(decodeRoute(message)) || other();
    case RTM_NEWRULE:
      return set(decodeRule(message)) || other();
    case RTM_NEWNEIGH:
      return set(decodeNeighbour(message)) || other();
    case RTM_DELNEIGH:
      if (decodeNeighbour(message) == nullptr) return other();
      [[fallthrough]];
    case RTM_DELRULE:
    case RTM_DELLINK:
    case RTM_DELADDR:
    case RTM_DELROUTE:
      out.body = Removed{message->nlmsg_type};
      return true;
    default:
      return other();
  }
}

// Decodes a message of a family of generic netlink; errors and ends look as everywhere.
bool decodeGenericBody(const nlmsghdr* message, Message& out) {
  if (message->nlmsg_type < NLMSG_MIN_TYPE) return decodeBody(message, out);
  KJ_IF_MAYBE (header, fixedHeader<genlmsghdr>(message)) {
    Generic generic;
    generic.family = message->nlmsg_type;
    generic.command = header->cmd;
    generic.size = mnl_nlmsg_get_payload_len(message) - GENL_HDRLEN;
    generic.attributes = kj::heapArray<uint64_t>(generic.size / sizeof(uint64_t) + 1);
    memset(generic.attributes.begin(), 0, generic.attributes.asBytes().size());
    if (generic.size > 0) {
      memcpy(generic.attributes.begin(), mnl_nlmsg_get_payload_offset(message, GENL_HDRLEN),
             generic.size);
    }
    out.body = kj::mv(generic);
    return true;
  }
  return false;
}

bool decodeSocketBody(const nlmsghdr* message, Message& out) {
  if (message->nlmsg_type < NLMSG_MIN_TYPE) return decodeBody(message, out);
  if (message->nlmsg_type != SOCK_DIAG_BY_FAMILY) {
    out.body = Other{message->nlmsg_type};
    return true;
  }
  if (mnl_nlmsg_get_payload_len(message) < sizeof(inet_diag_msg)) return false;
  KJ_IF_MAYBE (connection, decodeConnection(message)) {
    out.body = kj::mv(*connection);
  } else {
    out.body = Other{message->nlmsg_type};
  }
  return true;
}

bool decode(Format format, const nlmsghdr* message, Message& out) {
  switch (format) {
    case Format::kRoute:
      return decodeBody(message, out);
    case Format::kGeneric:
      return decodeGenericBody(message, out);
    case Format::kSockets:
      return decodeSocketBody(message, out);
  }
  KJ_UNREACHABLE;
}

// Calls handle(header) for the messages of a datagram until it returns false; returns the number of
// bytes left. The structures need alignment, so unaligned bytes of a caller are copied.
template <typename F>
size_t eachHeader(kj::ArrayPtr<const kj::byte> datagram, F&& handle) {
  kj::Array<uint64_t> copy;
  // Without a copy there is nothing to zero; nullptr must not be passed.
  KJ_DEFER(if (copy.size() > 0) explicit_bzero(copy.begin(), copy.asBytes().size()));
  if (reinterpret_cast<uintptr_t>(datagram.begin()) % alignof(nlmsghdr) != 0) {
    copy = kj::heapArray<uint64_t>(datagram.size() / sizeof(uint64_t) + 1);
    memcpy(copy.begin(), datagram.begin(), datagram.size());
    datagram = copy.asBytes().slice(0, datagram.size());
  }
  auto message = reinterpret_cast<const nlmsghdr*>(datagram.begin());
  int left = static_cast<int>(std::min<size_t>(datagram.size(), 1u << 24));
  // mnl_nlmsg_ok() compares as int: a length with the highest bit set would pass.
  while (mnl_nlmsg_ok(message, left) && message->nlmsg_len <= static_cast<uint32_t>(left)) {
    if (!handle(message)) break;
    message = mnl_nlmsg_next(message, &left);
  }
  return left > 0 ? left : 0;
}

}  // namespace

kj::Maybe<kj::String> eachMessage(kj::ArrayPtr<const kj::byte> datagram, Format format,
                                  kj::FunctionParam<void(Message&&)> handle) {
  kj::Maybe<kj::String> problem;
  auto left = eachHeader(datagram, [&](const nlmsghdr* header) {
    Message message;
    message.sequence = header->nlmsg_seq;
    message.flags = header->nlmsg_flags;
    bool read = decode(format, header, message);
    if (read) {
      handle(kj::mv(message));
    } else {
      problem = kj::str("message of type ", header->nlmsg_type, " with only ",
                        mnl_nlmsg_get_payload_len(header), " bytes");
    }
    return read;
  });
  if (problem == nullptr && left > 0) {
    problem = kj::str(left, " bytes at the end that are not a message");
  }
  return problem;
}

namespace {

// Returns true for an IP family: multicast routing has rules too, and bridges have neighbours. All
// structures of rtnetlink start with the family.
bool isIp(const nlmsghdr* header) {
  auto family = fixedHeader<rtgenmsg>(header).orDefault(rtgenmsg{AF_UNSPEC}).rtgen_family;
  return family == AF_INET || family == AF_INET6;
}

// Returns true if the message only renews the lifetime of a shared address: this happens several
// times a second and requires no reaction.
bool isRenewal(const nlmsghdr* header) {
  uint8_t protocol = 0;
  ifa_cacheinfo times{};
  eachAttribute(header, sizeof(ifaddrmsg), [&](unsigned type, const nlattr* attribute) {
    if (type == IFA_PROTO) read(attribute, protocol);
    if (type == IFA_CACHEINFO) read(attribute, times);
  });
  return protocol == kSharedAddress && times.cstamp != times.tstamp;
}
}  // namespace

Notice noticeOf(kj::ArrayPtr<const kj::byte> datagram) {
  Notice notice;
  auto left = eachHeader(datagram, [&](const nlmsghdr* header) {
    switch (header->nlmsg_type) {
      case RTM_NEWLINK:
        // Other families (bridge ports) use the same type.
        KJ_IF_MAYBE (link, fixedHeader<ifinfomsg>(header)) {
          notice.links = notice.links || link->ifi_family == AF_UNSPEC;
        }
        break;
      case RTM_DELLINK:
        notice.links = true;
        break;
      case RTM_NEWADDR:
        notice.addresses = notice.addresses || !isRenewal(header);
        break;
      case RTM_DELADDR:
        notice.addresses = true;
        break;
      case RTM_NEWROUTE:
      case RTM_DELROUTE:
        notice.routes = true;
        break;
      case RTM_NEWRULE:
      case RTM_DELRULE:
        notice.rules = notice.rules || isIp(header);
        break;
      case RTM_NEWNEIGH:
      case RTM_DELNEIGH:
        notice.neighbours = notice.neighbours || isIp(header);
        break;
      default:
        break;
    }
    return true;
  });
  notice.overrun = left > 0;  // the rest could not be read
  return notice;
}

Generic::~Generic() noexcept(false) {
  if (attributes.size() > 0) explicit_bzero(attributes.begin(), attributes.asBytes().size());
}

}  // namespace talos::netlink
