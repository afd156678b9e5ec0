#include "machined/process1/init/request-check.h"

#include <gtest/gtest.h>
#include <linux/reboot.h>
#include <string.h>

#include <random>

namespace talos::process1 {
namespace {

Request request(RequestKind kind, const char* name, uint32_t argument = 0) {
  Request r = {};
  r.version = kVersion;
  r.kind = kind;
  r.id = 1;
  r.argument = argument;
  strncpy(r.name, name, kNameSize);
  return r;
}

// Each row has one mistake; a check that misses it lets it into the tables.
TEST(Request, Table) {
  struct Row {
    Request request;
    unsigned descriptors;
    bool good;
  } rows[] = {
      {request(RequestKind::kHold, "a"), 1, true},
      {request(RequestKind::kHold, "a"), 0, false},
      {request(RequestKind::kHold, "a"), 2, false},
      {request(RequestKind::kHold, ""), 1, false},
      {request(RequestKind::kDrop, "a"), 0, true},
      {request(RequestKind::kDrop, "a"), 1, false},
      {request(RequestKind::kSignal, "a", 15), 0, true},
      {request(RequestKind::kSignal, "a", 0), 0, false},
      {request(RequestKind::kSignal, "a", 65), 0, false},
      {request(RequestKind::kSignal, "", 15), 0, false},
      {request(RequestKind::kAcknowledge, ""), 0, true},
      {request(RequestKind::kReboot, "", LINUX_REBOOT_CMD_RESTART), 0, true},
      {request(RequestKind::kReboot, "", LINUX_REBOOT_CMD_CAD_ON), 0, false},
      {request(RequestKind::kReboot, "", 0), 0, false},
      {request(static_cast<RequestKind>(0), "a"), 0, false},
      {request(static_cast<RequestKind>(99), "a"), 0, false},
      {request(RequestKind::kDrop,
               "0123456789012345678901234567890123456789012345678901234567890123"),
       0, false},
      {request(RequestKind::kSpawn, "a"), 0, false},
  };
  for (auto& row : rows) {
    const char* wrong = check(&row.request, sizeof(Request), row.descriptors);
    EXPECT_EQ(row.good, wrong == nullptr) << "row " << &row - rows << ": " << (wrong ? wrong : "");
    EXPECT_NE(nullptr, check(&row.request, sizeof(Request) - 1, row.descriptors));
    EXPECT_NE(nullptr, check(&row.request, sizeof(Request) + 1, row.descriptors));
    row.request.version++;
    EXPECT_NE(nullptr, check(&row.request, sizeof(Request), row.descriptors));
  }
}

struct Built {
  Spawn spawn = {};
  Built(std::initializer_list<const char*> strings, unsigned argc) {
    spawn.head = request(RequestKind::kSpawn, "slot");
    spawn.argc = static_cast<uint16_t>(argc);
    spawn.envc = static_cast<uint16_t>(strings.size() - argc);
    for (auto* s : strings) {
      memcpy(spawn.text + spawn.textSize, s, strlen(s) + 1);
      spawn.textSize = static_cast<uint16_t>(spawn.textSize + strlen(s) + 1);
    }
  }
  const char* wrong(unsigned fds = 0) {
    return check(&spawn, offsetof(Spawn, text) + spawn.textSize, fds);
  }
};

TEST(Request, Spawn) {
  Built good({"/bin/x", "-a", "K=V"}, 2);
  EXPECT_EQ(nullptr, good.wrong());
  char* argv[kMaxStrings + 1];
  char* environment[kMaxStrings + 1];
  strings(good.spawn, argv, environment);
  EXPECT_STREQ("-a", argv[1]);
  EXPECT_EQ(nullptr, argv[2]);
  EXPECT_STREQ("K=V", environment[0]);
  EXPECT_EQ(nullptr, environment[1]);

  Built relative({"x"}, 1);
  EXPECT_NE(nullptr, relative.wrong());
  Built none({"/x"}, 0);
  EXPECT_NE(nullptr, none.wrong());
  Built more({"/x"}, 1);
  more.spawn.envc = 1;
  EXPECT_NE(nullptr, more.wrong());
  Built open({"/x"}, 1);
  open.spawn.text[open.spawn.textSize - 1] = 'y';
  EXPECT_NE(nullptr, open.wrong());
  Built twice({"/x"}, 1);
  twice.spawn.passed = 2;
  twice.spawn.as[0] = twice.spawn.as[1] = 5;
  EXPECT_NE(nullptr, twice.wrong(2));
  twice.spawn.as[1] = 6;
  EXPECT_EQ(nullptr, twice.wrong(2));
  EXPECT_NE(nullptr, twice.wrong(1));
  twice.spawn.as[1] = 2;
  EXPECT_NE(nullptr, twice.wrong(2));
  Built limited({"/x"}, 1);
  limited.spawn.memoryMax = INT64_MAX;
  EXPECT_EQ(nullptr, limited.wrong());
  limited.spawn.memoryMax = uint64_t(INT64_MAX) + 1;
  EXPECT_NE(nullptr, limited.wrong());
  Built outside({"/x"}, 1);
  strcpy(outside.spawn.cgroup, "a/../../b");
  EXPECT_NE(nullptr, outside.wrong());
}

TEST(Request, PlainPath) {
  for (auto* good : {"a", "a/b", "system/apid", "..a", "a.b"}) EXPECT_TRUE(plainPath(good)) << good;
  for (auto* bad : {"", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b"}) {
    EXPECT_FALSE(plainPath(bad)) << bad;
  }
}

// A request that passes must be safe to read; the sanitizers report it if it is not.
TEST(Request, RandomBytes) {
  std::mt19937 random(7);
  char* argv[kMaxStrings + 1];
  char* environment[kMaxStrings + 1];
  unsigned passed = 0;
  for (int i = 0; i < 20000; ++i) {
    Built b({"/bin/x", "-a", "K=V"}, 2);
    auto* bytes = reinterpret_cast<unsigned char*>(&b.spawn);
    for (unsigned flips = random() % 4; flips > 0; --flips) {
      bytes[random() % (offsetof(Spawn, text) + 20)] = static_cast<unsigned char>(random());
    }
    if (b.spawn.head.kind == RequestKind::kSpawn && b.wrong(random() % 3) == nullptr) {
      strings(b.spawn, argv, environment);
      ++passed;
    }
  }
  EXPECT_GT(passed, 100u);
}

}  // namespace
}  // namespace talos::process1
