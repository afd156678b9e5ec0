#include "machined/confined/sandbox/confine-options.h"

#include <gtest/gtest.h>
#include <linux/capability.h>

#include "common/base/error.h"

namespace talos::confine {
namespace {

Options read(std::initializer_list<kj::StringPtr> arguments) {
  return parse(kj::arrayPtr(arguments.begin(), arguments.size()));
}

TEST(ConfineOptions, All) {
  auto o = read({"--uid=52", "--gid", "53", "--capabilities=net_admin,net_raw", "--seccomp=network",
                 "--landlock-read=/etc", "--landlock-read", "/run", "--landlock-write=/var/x",
                 "--landlock-list=/l", "--landlock-libraries=/usr/lib", "--landlock-device=/dev/m",
                 "--rlimit=nofile=4096", "--oom-score=-998", "--", "/usr/bin/x", "--uid=0"});
  EXPECT_EQ(52u, o.uid);
  EXPECT_EQ(53u, o.gid);
  ASSERT_EQ(2u, o.capabilities.size());
  EXPECT_EQ(static_cast<unsigned>(CAP_NET_RAW), o.capabilities[1]);
  EXPECT_EQ("network"_kj, KJ_ASSERT_NONNULL(o.seccomp));
  EXPECT_EQ(2u, o.files.read.size());
  EXPECT_EQ("/var/x"_kj, o.files.write[0]);
  EXPECT_EQ("/l"_kj, o.files.list[0]);
  EXPECT_EQ("/usr/lib"_kj, o.files.libraries[0]);
  EXPECT_EQ("/dev/m"_kj, o.files.devices[0]);
  EXPECT_EQ(RLIMIT_NOFILE, o.limits[0].resource);
  EXPECT_EQ(4096u, o.limits[0].value);
  EXPECT_EQ(-998, KJ_ASSERT_NONNULL(o.oomScore));
  ASSERT_EQ(2u, o.command.size());
  EXPECT_EQ("--uid=0"_kj, o.command[1]) << "what follows -- belongs to the program";
}

// Catches: a parser that writes into its brain's log, or that outlives it, because the wrapper took
// one option for another.
TEST(ConfineOptions, OfAParser) {
  auto o = read({"--uid=53", "--rlimit=cpu=11", "--lifetime=77", "--output=none", "--", "/x"});
  EXPECT_EQ(RLIMIT_CPU, o.limits[0].resource);
  EXPECT_EQ(77, KJ_ASSERT_NONNULL(o.parent));
  EXPECT_EQ(Options::Output::kNone, o.output);
  EXPECT_FALSE(o.stopFirst);
  EXPECT_TRUE(read({"--uid=53", "--stop=first", "--", "/x"}).stopFirst);
  EXPECT_EQ(Options::Output::kSocket, read({"--uid=53", "--output=socket", "--", "/x"}).output);
  auto usual = read({"--uid=53", "--", "/x"});
  EXPECT_TRUE(usual.output == Options::Output::kInherited && usual.parent == nullptr);
}

TEST(ConfineOptions, OfAListener) {
  EXPECT_TRUE(
      read({"--uid=51", "--landlock-read=/x", "--landlock-tcp=none", "--", "/x"}).withoutTcp);
  EXPECT_FALSE(read({"--uid=51", "--landlock-read=/x", "--", "/x"}).withoutTcp);
}

TEST(ConfineOptions, GroupIsTheUsersNumberUnlessGiven) {
  EXPECT_EQ(50u, read({"--uid=50", "--", "/x"}).gid);
  EXPECT_EQ(0u, read({"--uid=50", "--gid=0", "--", "/x"}).gid);
}

// Catches: a mistyped option that leaves a service with more rights than its line says.
TEST(ConfineOptions, Refused) {
  struct Row {
    std::initializer_list<kj::StringPtr> arguments;
    kj::StringPtr message;
  } rows[] = {
      {{"--", "/x"}, "--uid is missing"},
      {{"--uid=50"}, "the program is missing"},
      {{"--uid=50", "--"}, "the program is missing"},
      {{"--uid=50", "--", "x"}, "absolute path"},
      {{"--uid=fifty", "--", "/x"}, "a number"},
      {{"--uid=-1", "--", "/x"}, "a number"},
      {{"--uid=50", "--capabilities=net_admim", "--", "/x"}, "use one of chown"},
      {{"--uid=50", "--secomp=server", "--", "/x"}, "unknown option --secomp"},
      {{"--uid=50", "--landlock-read=etc", "--", "/x"}, "absolute path"},
      {{"--uid=50", "--rlimit=nofile", "--", "/x"}, "NAME=NUMBER"},
      {{"--uid=50", "--rlimit=files=3", "--", "/x"}, "use one of as"},
      {{"--uid=50", "--oom-score=-1001", "--", "/x"}, "must be -1000"},
      {{"--uid=50", "--lifetime=mine", "--", "/x"}, "a number"},
      {{"--uid=50", "--output=all", "--", "/x"}, "must be none or socket"},
      {{"--uid=50", "--landlock-read=/x", "--landlock-tcp=all", "--", "/x"}, "must be none"},
      {{"--uid=50", "--landlock-tcp=none", "--", "/x"}, "needs files"},
      {{"--uid=50", "--stop=last", "--", "/x"}, "must be first"},
      {{"--uid=50", "stray", "--", "/x"}, "comes after --"},
      {{"--uid", "--", "/x"}, "needs a value"},
  };
  for (auto& row : rows) {
    try {
      parse(kj::arrayPtr(row.arguments.begin(), row.arguments.size()));
      ADD_FAILURE() << "accepted: " << row.message.cStr();
    } catch (const kj::Exception& e) {
      EXPECT_EQ(ErrorKind::kInvalidArgument, kindOf(e));
      EXPECT_NE(nullptr, strstr(messageOf(e).cStr(), row.message.cStr())) << messageOf(e).cStr();
    }
  }
}

}  // namespace
}  // namespace talos::confine
