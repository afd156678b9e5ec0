#include "machined/system/secret-file-of-user.h"

#include <gtest/gtest.h>
#include <kj/debug.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"

namespace talos::machined {
namespace {

// Catches: a key that others can read, or that is rewritten (and read half) without need.
TEST(OwnedFile, IsForItsUserAloneAndStaysWhileItIsRight) {
  char folder[] = "/tmp/owned-file-XXXXXX";
  ASSERT_TRUE(mkdtemp(folder) != nullptr);
  KJ_DEFER(removeTree(folder));
  auto path = kj::str(folder, "/key");
  auto look = [&]() {
    struct stat found;
    KJ_SYSCALL(lstat(path.cStr(), &found), path);
    return found;
  };
  writeOwnedFile(path, "one"_kj.asBytes(), getuid());
  auto first = look();
  EXPECT_EQ(0400u, first.st_mode & 07777);
  EXPECT_EQ(getuid(), first.st_uid);
  writeOwnedFile(path, "one"_kj.asBytes(), getuid());
  EXPECT_EQ(first.st_ino, look().st_ino);
  writeOwnedFile(path, "two"_kj.asBytes(), getuid());
  EXPECT_NE(first.st_ino, look().st_ino);
  EXPECT_EQ(kj::str("two"), readFile(path));
  ASSERT_EQ(0, chmod(path.cStr(), 0644));
  writeOwnedFile(path, "two"_kj.asBytes(), getuid());
  EXPECT_EQ(0400u, look().st_mode & 07777);
  // A link in its place is replaced, not followed.
  auto other = kj::str(folder, "/other");
  writeFileAtomically(other, "two"_kj, 0400);
  ASSERT_EQ(0, unlink(path.cStr()));
  ASSERT_EQ(0, symlink(other.cStr(), path.cStr()));
  writeOwnedFile(path, "two"_kj.asBytes(), getuid());
  EXPECT_TRUE(S_ISREG(look().st_mode));
}

}  // namespace
}  // namespace talos::machined
