// What the kernel says over netlink, from any bytes: reads outside the input, endless walks, and
// texts that are not plain would show here.
#include <kj/debug.h>

#include "common/netlink-codec.h"

using namespace talos::netlink;

namespace {
void checkText(kj::StringPtr text) {
  for (unsigned char c : text) KJ_ASSERT(c >= 0x20 && c != 0x7f);
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto decoded = decode(kj::arrayPtr(data, size));
  KJ_ASSERT(decoded.messages.size() <= size / 16);
  for (auto& message : decoded.messages) {
    KJ_SWITCH_ONEOF(message.body) {
      KJ_CASE_ONEOF(link, Link) {
        checkText(link.name);
        checkText(link.kind);
      }
      KJ_CASE_ONEOF(address, Address) {
        // What was read can be asked for again, and printed.
        checkText(address.prefix.toString());
        encode(DeleteAddress{address});
        if (auto broadcast = address.prefix.broadcast(); broadcast != nullptr) {
          KJ_ASSERT(address.prefix.contains(KJ_ASSERT_NONNULL(broadcast)));
        }
      }
      KJ_CASE_ONEOF(route, Route) {
        checkText(describe(DeleteRoute{route}));
        encode(AddRoute{route});
      }
      KJ_CASE_ONEOF(ack, Ack) {
        checkText(ack.message);
      }
      KJ_CASE_ONEOF(done, Done) {
        checkText(done.message);
      }
      KJ_CASE_ONEOF(removed, Removed) {}
      KJ_CASE_ONEOF(other, Other) {}
    }
  }
  return 0;
}
