#include "common/netlink/netlink-generic.h"

#include <kj/debug.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include "common/base/error.h"
#include "common/netlink/netlink-socket.h"

namespace talos::netlink {

void putGenericHeader(MessageBuilder& out, uint8_t command, uint8_t version) {
  auto& header = out.header<genlmsghdr>();
  header.cmd = command;
  header.version = version;
}

kj::Array<kj::byte> encodeFamilyRequest(kj::StringPtr name) {
  MessageBuilder out(GENL_ID_CTRL, NLM_F_REQUEST | NLM_F_ACK);
  putGenericHeader(out, CTRL_CMD_GETFAMILY, 1);
  out.putText(CTRL_ATTR_FAMILY_NAME, name);
  return out.finish();
}

kj::Maybe<uint16_t> readFamily(const Generic& message) {
  kj::Maybe<uint16_t> id;
  if (message.family != GENL_ID_CTRL) return nullptr;
  eachAttribute(message, [&](unsigned type, const nlattr* attribute) {
    if (type == CTRL_ATTR_FAMILY_ID) id = number<uint16_t>(attribute);
  });
  return id;
}

kj::Maybe<uint32_t> readGroup(const Generic& message, kj::StringPtr group) {
  kj::Maybe<uint32_t> result;
  if (message.family != GENL_ID_CTRL) return nullptr;
  eachAttribute(message, [&](unsigned type, const nlattr* groups) {
    if (type != CTRL_ATTR_MCAST_GROUPS) return;
    eachNested(groups, [&](unsigned, const nlattr* one) {
      kj::Maybe<uint32_t> id;
      bool wanted = false;
      eachNested(one, [&](unsigned inner, const nlattr* attribute) {
        if (inner == CTRL_ATTR_MCAST_GRP_ID) id = number<uint32_t>(attribute);
        if (inner == CTRL_ATTR_MCAST_GRP_NAME) wanted = text(payload(attribute)) == group;
      });
      if (wanted) result = id;
    });
  });
  return result;
}

kj::Maybe<kj::AutoCloseFd> listenToGroup(kj::StringPtr family, kj::StringPtr group) {
  Socket socket(NETLINK_GENERIC, 5 * kj::SECONDS);
  kj::Maybe<uint32_t> id;
  try {
    for (auto& message : socket.dump(encodeFamilyRequest(family), kj::str("find ", family))) {
      KJ_IF_MAYBE (part, message.body.tryGet<Generic>()) {
        KJ_IF_MAYBE (found, readGroup(*part, group)) id = *found;
      }
    }
  } catch (const kj::Exception& e) {
    if (kindOf(e) != ErrorKind::kFailedPrecondition) throw;  // the kernel's error: no such family
  }
  KJ_IF_MAYBE (number, id) {
    auto fd = openSocket(NETLINK_GENERIC, 0);
    int wanted = static_cast<int>(*number);
    KJ_SYSCALL(setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &wanted, sizeof(wanted)),
               "listen to a netlink group", family, group);
    return kj::mv(fd);
  }
  return nullptr;
}

}  // namespace talos::netlink
