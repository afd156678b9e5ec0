#include "machined/process1/client-call-limits.h"

#include <gtest/gtest.h>
#include <kj/vector.h>

#include "common/base/error.h"

namespace talos::machined {
namespace {

bool refused(ClientCalls& client, CallKind kind, kj::StringPtr message) {
  auto e = kj::runCatchingExceptions([&]() { client.enter(kind); });
  KJ_IF_MAYBE (x, e) {
    EXPECT_EQ(ErrorKind::kResourceExhausted, kindOf(*x));
    EXPECT_TRUE(messageOf(*x).asArray().size() > 0);
    EXPECT_NE(std::string(messageOf(*x).cStr()).find(message.cStr()), std::string::npos)
        << messageOf(*x).cStr();
    return true;
  }
  return false;
}

// Catches: a client that takes all slots; a client that pays for another; slots that are never
// given back.
TEST(ClientCalls, AreBoundedForOneAndForAll) {
  for (size_t i = 0; i < kCallKinds; ++i) {
    auto kind = static_cast<CallKind>(i);
    auto limit = limitOf(kind);
    auto node = kj::refcounted<NodeCalls>();
    kj::Vector<kj::Own<ClientCalls>> clients;
    kj::Vector<ClientCalls::Slot> slots;
    while (slots.size() < limit.inTotal) {
      auto& client = *clients.add(kj::refcounted<ClientCalls>(kj::addRef(*node)));
      for (unsigned n = 0; n < limit.perClient && slots.size() < limit.inTotal; ++n) {
        slots.add(client.enter(kind));
      }
      if (slots.size() < limit.inTotal) EXPECT_TRUE(refused(client, kind, "this client has "));
    }
    EXPECT_GE(clients.size(), 4u) << "four clients would be everybody";
    auto late = kj::refcounted<ClientCalls>(kj::addRef(*node));
    EXPECT_TRUE(refused(*late, kind, kj::str(limit.inTotal, " ", limit.what)));
    slots.removeLast();
    EXPECT_FALSE(refused(*late, kind, ""));
    for (size_t other = 0; other < kCallKinds; ++other) {
      if (other != i) EXPECT_FALSE(refused(*late, static_cast<CallKind>(other), ""));
    }
    slots.clear();
    EXPECT_EQ(0u, node->count(kind));
  }
}

}  // namespace
}  // namespace talos::machined
