#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <iterator>

#include "rpc/local.capnp.h"
#include "tests/contracts/socket-reference.h"

namespace talos::contracts {
namespace {

// Catches: documents of the sockets that differ from the schemas, from the service table, or from a
// server's permissions. UPDATE_DOCS=1 writes them again.
TEST(SocketsReference, IsInTheDocuments) {
  kj::EventLoop loop;
  kj::WaitScope scope(loop);
  SchemaComments comments(TALOS_SOURCE_DIR);
  auto pages = socketPages(scope, comments);
  EXPECT_GE(pages.size(), 7u);
  std::set<std::string> names;
  for (auto& page : pages) {
    names.insert(page.name.cStr());
    auto path = kj::str(TALOS_SOURCE_DIR "/docs/sockets/", page.name);
    if (getenv("UPDATE_DOCS") != nullptr) std::ofstream(path.cStr()) << page.text.cStr();
    std::ifstream file(path.cStr());
    std::string text((std::istreambuf_iterator<char>(file)), {});
    EXPECT_TRUE(text == page.text.cStr()) << path.cStr() << " is not up to date";
  }
  for (auto& name : kj::newDiskFilesystem()
                        ->getRoot()
                        .openSubdir(kj::Path(nullptr).evalNative(TALOS_SOURCE_DIR "/docs/sockets"))
                        ->listNames()) {
    EXPECT_EQ(1u, names.count(name.cStr())) << name.cStr() << " is of no socket";
  }
}

// Catches: a kind that is found within another word, or not found at the end of a comment.
TEST(SocketsReference, ErrorsAreNamedByWholeWords) {
  EXPECT_TRUE(errorsNamedIn("Conflicts, NotFoundable, unInternal").empty());
  EXPECT_EQ((std::set<ErrorKind>{ErrorKind::kNotFound, ErrorKind::kConflict}),
            errorsNamedIn("Conflict while it runs (NotFound"));
  EXPECT_EQ((std::set<ErrorKind>{ErrorKind::kUnavailable}), errorsNamedIn("Unavailable"));
}

// Catches: comments that are attributed to another method.
TEST(SocketsReference, CommentsAreThoseOfTheirMethods) {
  SchemaComments comments(TALOS_SOURCE_DIR);
  auto machined = capnp::Schema::from<rpc::Machined>();
  EXPECT_THAT(comments.of(machined.getMethodByName("logFeed")).cStr(),
              ::testing::HasSubstr("logd"));
  EXPECT_THAT(comments.of(machined).cStr(), ::testing::HasSubstr("Bootstrap of /run/talos/"));
  auto store = capnp::Schema::from<rpc::Store>();
  EXPECT_THAT(comments.of(store.getMethodByName("destroy")).cStr(),
              ::testing::HasSubstr("finalizers are left"));
}

}  // namespace
}  // namespace talos::contracts
