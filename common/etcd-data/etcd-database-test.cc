#include "common/etcd-data/etcd-database.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/error.h"
#include "common/etcd-data/snapshot-check.h"
#include "common/etcd-data/test-bolt-file.h"

namespace talos {
namespace {

using testing::HasSubstr;

// Returns the revision, or the error.
std::string newestOf(const std::string& file) {
  auto read = [&](uint64_t at, size_t size) {
    EXPECT_LE(at + size, file.size());
    return kj::heapArray(kj::arrayPtr(file.data() + at, size).asBytes());
  };
  std::string result;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions(
                      [&]() { result = std::to_string(newestRevision(file.size(), read)); })) {
    EXPECT_EQ(ErrorKind::kInvalidArgument, kindOf(*e));
    result = messageOf(*e).cStr();
  }
  return result;
}

}  // namespace

TEST(EtcdDatabase, NewestRevision) {
  EXPECT_EQ("77", newestOf(BoltFile::etcd(77)));
  EXPECT_EQ("9223372036854775807", newestOf(BoltFile::etcd(INT64_MAX)));
}

// Catches: the first leaf instead of the last; a deletion that does not count as a revision.
TEST(EtcdDatabase, OfATree) {
  BoltFile file;
  auto first = file.leaf({{BoltFile::revision(2), "a"}, {BoltFile::revision(9), "b"}});
  auto last = file.leaf({{BoltFile::revision(10), ""}, {BoltFile::revision(300, true), ""}});
  auto keys = file.branch({{BoltFile::revision(2), first}, {BoltFile::revision(10), last}});
  auto before = file.leaf({{"auth", BoltFile::bucket(0)}}, 1);
  auto root = file.leaf({{"key", BoltFile::bucket(keys)}}, 1);
  auto after = file.leaf({{"lease", BoltFile::bucket(0)}}, 1);
  auto top = file.branch({{"auth", before}, {"key", root}, {"lease", after}});
  file.meta(0, top, 4), file.meta(1, top, 3);
  EXPECT_EQ("300", newestOf(file.bytes));
}

// Catches: a small bucket, whose page is inside of its parent.
TEST(EtcdDatabase, OfAnInlineBucket) {
  BoltFile file;
  auto root = file.leaf({{"key", BoltFile::inlineBucket({{BoltFile::revision(5), "a"}})}}, 1);
  file.meta(0, root, 4), file.meta(1, root, 5);
  EXPECT_EQ("5", newestOf(file.bytes));
  BoltFile empty;
  root = empty.leaf({{"key", BoltFile::inlineBucket({})}}, 1);
  empty.meta(0, root, 4), empty.meta(1, root, 5);
  EXPECT_EQ("1", newestOf(empty.bytes)) << "of a new database";
}

// Catches: the state before the last transaction, or that of a torn page.
TEST(EtcdDatabase, TheNewerOfTwoMetasCounts) {
  for (unsigned newer : {0u, 1u}) {
    BoltFile file;
    auto oldRoot = file.leaf({{"key", BoltFile::inlineBucket({{BoltFile::revision(5), ""}})}}, 1);
    auto newRoot = file.leaf({{"key", BoltFile::inlineBucket({{BoltFile::revision(6), ""}})}}, 1);
    file.meta(newer, newRoot, 8), file.meta(1 - newer, oldRoot, 7);
    EXPECT_EQ("6", newestOf(file.bytes)) << newer;
    file.bytes[newer * BoltFile::kPage + 16 + 20] ^= 1;
    EXPECT_EQ("5", newestOf(file.bytes)) << newer;
    file.bytes[(1 - newer) * BoltFile::kPage + 16 + 20] ^= 1;
    EXPECT_THAT(newestOf(file.bytes), HasSubstr("neither of its first pages is valid"));
  }
}

// Catches: pointers of a damaged or made-up file that are followed.
TEST(EtcdDatabase, DamagedPointersAreNotFollowed) {
  BoltFile circle;
  auto keys = circle.branch({{BoltFile::revision(1), circle.bytes.size() / BoltFile::kPage}});
  auto root = circle.leaf({{"key", BoltFile::bucket(keys)}}, 1);
  circle.meta(0, root, 4), circle.meta(1, root, 5);
  EXPECT_THAT(newestOf(circle.bytes), HasSubstr("its pages point in a circle"));

  for (uint64_t far : {uint64_t{0}, uint64_t{1}, uint64_t{99}, ~uint64_t{0}, uint64_t{1} << 54}) {
    BoltFile file;
    file.meta(0, far, 4), file.meta(1, far, 5);
    EXPECT_THAT(newestOf(file.bytes), HasSubstr("points outside of the file")) << far;
  }
  auto good = BoltFile::etcd(77);
  for (size_t size = 0; size < good.size(); size += 7) {
    EXPECT_THAT(newestOf(good.substr(0, size)), HasSubstr("not a database of etcd")) << size;
  }
  EXPECT_THAT(newestOf(BoltFile::etcd(~uint64_t{0})), HasSubstr("a revision is too large"));
  BoltFile other;
  root = other.leaf({{"mail", BoltFile::bucket(0)}}, 1);
  other.meta(0, root, 4), other.meta(1, root, 5);
  EXPECT_THAT(newestOf(other.bytes), HasSubstr("it has no keys"));
  BoltFile strange;
  root = strange.leaf({{"key", BoltFile::inlineBucket({{"a", ""}})}}, 1);
  strange.meta(0, root, 4), strange.meta(1, root, 5);
  EXPECT_THAT(newestOf(strange.bytes), HasSubstr("a key has no revision"));
}

}  // namespace talos
