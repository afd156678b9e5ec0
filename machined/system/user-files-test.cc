#include "machined/system/user-files.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "machined/process1/test-process1.h"
#include "machined/system/appended-text.h"
#include "machined/system/system-tree.h"
#include "machined/system/test-system-tree.h"

namespace talos::machined {
namespace {

using config::FileOp;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class UserFilesTest : public testing::Test {
 public:
  ~UserFilesTest() noexcept override {}

 protected:
  TestSystemTree tree;
  FakeMounts mounts;

  std::vector<std::string> warnings;

  // Returns the problems.
  std::vector<std::string> write(std::initializer_list<UserFile> entries) {
    auto result = writeUserFiles(tree.root, mounts, kj::arrayPtr(entries.begin(), entries.size()));
    warnings.clear();
    for (auto& w : result.warnings) warnings.push_back(w.cStr());
    std::vector<std::string> problems;
    for (auto& p : result.problems) problems.push_back(p.cStr());
    return problems;
  }
  static UserFile create(kj::StringPtr path, kj::StringPtr content, mode_t mode = 0644) {
    return UserFile(FileOp::CREATE, path, content, mode);
  }
  static UserFile append(kj::StringPtr path, kj::StringPtr content, mode_t mode = 0644) {
    return UserFile(FileOp::APPEND, path, content, mode);
  }
  static UserFile overwrite(kj::StringPtr path, kj::StringPtr content, mode_t mode = 0644) {
    return UserFile(FileOp::OVERWRITE, path, content, mode);
  }
  // Returns the text that is shown under a path of the image.
  std::string shown(kj::StringPtr path) {
    auto found = mounts.binds.find(tree.path(path).cStr());
    if (found == mounts.binds.end()) return "(image) " + tree.get(path);
    return readFile(found->second.c_str()).cStr();
  }
};

// Catches: parents that only root may enter; the seeds' entry without permissions; an overwritten
// file that keeps its old, wider permissions.
TEST_F(UserFilesTest, CreateWritesBelowVar) {
  EXPECT_THAT(write({create("/var/cri/conf.d/metrics.toml", "[metrics]\n"),
                     create("/var/secret", "s", 0600)}),
              IsEmpty());
  EXPECT_EQ("[metrics]\n", tree.get("/var/cri/conf.d/metrics.toml"));
  EXPECT_EQ(0755u, tree.mode("/var/cri/conf.d"));
  EXPECT_EQ(0644u, tree.mode("/var/cri/conf.d/metrics.toml"));
  EXPECT_EQ(0600u, tree.mode("/var/secret"));
  tree.put("/var/secret", "was open", 0644);
  EXPECT_THAT(write({create("/var/secret", "s", 0600)}), IsEmpty());
  EXPECT_EQ("s", tree.get("/var/secret"));
  EXPECT_EQ(0600u, tree.mode("/var/secret"));
  EXPECT_EQ(0u, mounts.calls);
}

// Catches: an overwrite or append that makes a missing file; a problem that hides the others or
// stops the good entries.
TEST_F(UserFilesTest, ProblemsAreCollectedAndTheRestIsDone) {
  makeDirectories(tree.path("/var/folder"));
  EXPECT_THAT(
      write({overwrite("/var/a", "x"), append("/var/dir/b", "x"), create("/usr/new", "x"),
             overwrite("/etc/absent", "x"), create("/var/folder", "x"),
             append("/etc/ssl/certs", "x"), create("relative", "x"), create("/var/x/../../y", "x"),
             create("/var/system/appended", "x"), create("/var/good", "x")}),
      ElementsAre(HasSubstr("machine.files[0] (/var/a): no such file; use op: create"),
                  HasSubstr("machine.files[1] (/var/dir/b): no such file"),
                  HasSubstr("machine.files[2] (/usr/new): a file can be created only below /var"),
                  HasSubstr("machine.files[3] (/etc/absent): no such file in the system"),
                  HasSubstr("machine.files[4] (/var/folder): it is a directory"),
                  HasSubstr("machine.files[5] (/etc/ssl/certs): it is a directory"),
                  HasSubstr("machine.files[6] (relative): not a valid path"),
                  HasSubstr("machine.files[7] (/var/x/../../y): not a valid path"),
                  HasSubstr("machine.files[8] (/var/system/appended): this directory is reserved "
                            "for the system")));
  EXPECT_EQ("x", tree.get("/var/good"));
  EXPECT_EQ("(none)", tree.get("/var/dir")) << "a refused entry made a directory";
}

// Catches: an image's file that is written in place; a second append that starts from the first
// one's result; a mount for each name of one file.
TEST_F(UserFilesTest, FilesOfTheImageAreShownOver) {
  tree.put("/etc/ssl/certs/ca-certificates.crt", "A\nB\n");
  tree.link("ca-certificates.crt", "/etc/ssl/certs/ca-certificates");
  for (int run = 0; run < 2; ++run) {
    EXPECT_THAT(write({append("/etc/ssl/certs/ca-certificates", "C\n"),
                       append("/etc/ssl/certs/ca-certificates.crt", "D\n")}),
                IsEmpty());
    EXPECT_EQ("A\nB\n\nC\n\nD\n", shown("/etc/ssl/certs/ca-certificates.crt"));
    EXPECT_EQ(1u, mounts.binds.size()) << "one file has one mount, whichever names it has";
  }
  EXPECT_EQ("A\nB\n", tree.get("/etc/ssl/certs/ca-certificates.crt"));
  EXPECT_EQ(0755u, tree.mode("/var/etc/ssl/certs"));
  EXPECT_THAT(write({append("/etc/ssl/certs/ca-certificates", "E\n", 0600)}), IsEmpty());
  EXPECT_EQ("A\nB\n\nE\n", shown("/etc/ssl/certs/ca-certificates.crt"));
  EXPECT_EQ(0600u, tree.mode("/var/etc/ssl/certs/ca-certificates.crt"));
}

// Catches: a document whose file replaces none of the image, or for which nothing was made and that
// counts as written; one that is reported as an entry of the main document.
TEST_F(UserFilesTest, FilesOfDocumentsAreShownOver) {
  tree.put("/etc/nfs.conf", "image\n");
  capnp::MallocMessageBuilder message;
  auto machine = message.initRoot<config::Machine>();
  auto list = machine.initFiles(4);
  auto set = [&](unsigned index, kj::StringPtr path, kj::StringPtr content) {
    list[index].setOp(FileOp::CREATE);
    list[index].setPath(path);
    list[index].setContent(content);
    list[index].setPermissions(0600);
  };
  set(0, "/etc/nfs.conf", "mine\n");
  set(1, "/etc/multipath/multipath.conf", "x");
  set(2, "/etc/kubernetes/manifests/pod.yaml", "x");
  set(3, kContainerdPart, "x");
  auto files = userFiles(machine);
  auto paths = newEtcFiles(files);
  ASSERT_EQ(2u, paths.size());
  EXPECT_EQ("/etc/nfs.conf", paths[0]);
  EXPECT_EQ("/etc/multipath/multipath.conf", paths[1]);
  auto result = writeUserFiles(tree.root, mounts, files);
  ASSERT_EQ(1u, result.problems.size());
  EXPECT_EQ(
      "EtcFileConfig[multipath/multipath.conf] (/etc/multipath/multipath.conf): no such file in "
      "the system",
      result.problems[0]);
  EXPECT_EQ("mine\n", shown("/etc/nfs.conf"));
  EXPECT_EQ(0600u, tree.mode("/var/etc/nfs.conf"));
  EXPECT_EQ("image\n", tree.get("/etc/nfs.conf"));
}

// Catches: a file that has grown since it was made and cannot be replaced, so that every boot
// fails.
TEST_F(UserFilesTest, AFileThatHasGrownIsReplaced) {
  tree.put("/var/log.txt", "old");
  EXPECT_EQ(0, truncate(tree.path("/var/log.txt").cStr(), 65 << 20));
  EXPECT_THAT(write({create("/var/log.txt", "new")}), IsEmpty());
  EXPECT_EQ("new", tree.get("/var/log.txt"));
}

// Catches: text of the config's own file that is taken for earlier appended text.
TEST_F(UserFilesTest, WhatACreateReplacesIsForgotten) {
  tree.put("/var/f", "base\n");
  EXPECT_THAT(write({append("/var/f", "A\n")}), IsEmpty());
  EXPECT_THAT(write({create("/var/f", "new\n\nA\n")}), IsEmpty());
  EXPECT_THAT(write({}), IsEmpty());
  EXPECT_EQ("new\n\nA\n", tree.get("/var/f"));
}

// Catches: directories that only root may enter, because this process was started with another
// umask.
TEST_F(UserFilesTest, TheUmaskChangesNothing) {
  auto before = umask(0077);
  KJ_DEFER(umask(before));
  EXPECT_THAT(write({create("/var/u/v/x", "x")}), IsEmpty());
  EXPECT_EQ(0755u, tree.mode("/var/u"));
  EXPECT_EQ(0755u, tree.mode("/var/u/v"));
  EXPECT_EQ(0644u, tree.mode("/var/u/v/x"));
}

// Catches: a link that is followed where none may be, or out of the tree.
TEST(Tree, Links) {
  TestSystemTree tree;
  tree.put("/var/file", "x");
  tree.link("file", "/var/near");
  tree.link("../var/file", "/var/out");
  tree.link("/file", "/var/absolute");
  auto var = openTree(tree.path("/var"));
  auto opens = [&](kj::StringPtr name, Links links) {
    try {
      return tryOpen(var, name, O_RDONLY, links) != nullptr;
    } catch (const kj::Exception&) {
      return false;
    }
  };
  for (auto links : {Links::kNone, Links::kBeneath, Links::kInRoot}) {
    EXPECT_TRUE(opens("file", links));
    EXPECT_EQ(links != Links::kNone, opens("near", links));
    EXPECT_FALSE(opens("out", links));
    EXPECT_EQ(links == Links::kInRoot, opens("absolute", links));
  }
}

// Catches: a failed mount that is not retried, because its file is already up to date.
TEST_F(UserFilesTest, ARefusedMountIsAProblemAndMadeInTheNextRun) {
  tree.put("/etc/issue", "A\n");
  mounts.refuse = true;
  EXPECT_THAT(write({overwrite("/etc/issue", "B\n")}), ElementsAre(HasSubstr("refused")));
  mounts.refuse = false;
  EXPECT_THAT(write({overwrite("/etc/issue", "B\n")}), IsEmpty());
  EXPECT_EQ("B\n", shown("/etc/issue"));
}

// Catches: text that is appended again by every boot, or stays when the config says something else;
// removed text that takes the text of others after it along.
TEST_F(UserFilesTest, AppendBelowVarIsDoneOnce) {
  tree.put("/var/log.conf", "base\n");
  for (int boot = 0; boot < 3; ++boot) {
    EXPECT_THAT(write({append("/var/log.conf", "one\n"), append("/var/log.conf", "two\n")}),
                IsEmpty());
    EXPECT_EQ("base\n\none\n\ntwo\n", tree.get("/var/log.conf"));
  }
  tree.put("/var/log.conf", "base\n\none\n\ntwo\nothers\n");
  EXPECT_THAT(write({append("/var/log.conf", "three\n")}), IsEmpty());
  EXPECT_EQ("base\nothers\n\nthree\n", tree.get("/var/log.conf"));
  EXPECT_THAT(write({}), IsEmpty());
  EXPECT_EQ("base\nothers\n", tree.get("/var/log.conf"));
  EXPECT_THAT(write({}), IsEmpty());
  EXPECT_THAT(warnings, IsEmpty());
  EXPECT_EQ("base\nothers\n", tree.get("/var/log.conf"));
}

// Catches: a crash that doubles the text. The states are those at which the power can fail: notes
// written and file not, file written and notes not yet cleaned; each followed by the same config
// and by another.
TEST_F(UserFilesTest, AppendAfterACrashAtAnyLine) {
  auto notes = tree.path("/var/system/appended");
  tree.put("/var/f", "base\n");
  ASSERT_THAT(write({append("/var/f", "A\n")}), IsEmpty());
  auto settled = readFile(notes);
  ASSERT_THAT(write({append("/var/f", "B\n")}), IsEmpty());

  auto between = AppendedNotes();
  between.note("/var/f", "\nA\n"_kj);
  between.note("/var/f", "\nB\n"_kj);
  for (auto file : {"base\n\nA\n"_kj, "base\n\nB\n"_kj}) {
    for (auto next : {"A\n"_kj, "B\n"_kj, "A\n\nB\n"_kj, "C\n"_kj}) {
      tree.put("/var/f", file);
      between.save(notes);
      EXPECT_THAT(write({append("/var/f", next)}), IsEmpty());
      EXPECT_EQ(std::string("base\n\n") + next.cStr(), tree.get("/var/f"));
      auto after = AppendedNotes::load(notes);
      EXPECT_EQ(1u, after.of("/var/f").size()) << "the notes grow";
    }
    tree.put("/var/f", file);
    between.save(notes);
    EXPECT_THAT(write({}), IsEmpty());
    EXPECT_EQ("base\n", tree.get("/var/f"));
  }
  // The first crash: notes, and an unchanged file.
  writeFileAtomically(notes, settled, 0600);
  tree.put("/var/f", "base\n");
  EXPECT_THAT(write({append("/var/f", "A\n")}), IsEmpty());
  EXPECT_EQ("base\n\nA\n", tree.get("/var/f"));
}

// Catches: a file that is written before its text was noted.
TEST_F(UserFilesTest, OriginalTextIsStoredBeforeTheChange) {
  tree.put("/var/f", "base\n");
  ASSERT_THAT(write({append("/var/f", "A\n")}), IsEmpty());
  makeDirectories(tree.path("/var/.talos-new"));  // blocks every write
  EXPECT_THAT(write({append("/var/f", "B\n")}), testing::SizeIs(1));
  auto notes = AppendedNotes::load(tree.path("/var/system/appended"));
  EXPECT_EQ(2u, notes.of("/var/f").size());
  EXPECT_EQ("base\n\nA\n", tree.get("/var/f"));
}

// Catches: lost or damaged notes that double the text or stop the boot for ever.
TEST_F(UserFilesTest, AppendWithoutItsNotes) {
  tree.put("/var/f", "base\n");
  ASSERT_THAT(write({append("/var/f", "A\n")}), IsEmpty());
  for (auto broken : {"x"_kj, "12345678abcdefgh12345678"_kj}) {
    tree.put("/var/system/appended", broken);
    EXPECT_THAT(write({append("/var/f", "A\n")}), IsEmpty());
    EXPECT_EQ("base\n\nA\n", tree.get("/var/f"));
  }
  removeTree(tree.path("/var/system"));
  EXPECT_THAT(write({append("/var/f", "A\n")}), IsEmpty());
  EXPECT_EQ("base\n\nA\n", tree.get("/var/f"));
  EXPECT_EQ(0600u, tree.mode("/var/system/appended")) << "it holds what the config holds";
  EXPECT_EQ(0700u, tree.mode("/var/system"));
}

// Catches: create and append of one file that grow at each boot, or whose notes later remove a part
// of the file.
TEST_F(UserFilesTest, EntriesForOneFileAddUpInTheirOrder) {
  for (int boot = 0; boot < 2; ++boot) {
    EXPECT_THAT(write({append("/var/f", "early"), create("/var/f", "1"), append("/var/f", "2"),
                       overwrite("/var/f", "3"), append("/var/f", "4", 0640)}),
                boot == 0 ? testing::SizeIs(1) : testing::SizeIs(0));
    EXPECT_EQ("3\n4", tree.get("/var/f"));
    EXPECT_EQ(0640u, tree.mode("/var/f"));
  }
}

// Catches: a container that makes a link where the config writes, and so has a file of the system
// overwritten; a link of the image that is replaced instead of followed.
TEST_F(UserFilesTest, LinksDoNotLeadOut) {
  tree.put("/etc/shadow", "root\n");
  tree.link("/etc", "/var/out");
  tree.link("../etc/shadow", "/var/up");
  tree.link("nowhere", "/var/dangling");
  tree.link("/system/etc/hosts", "/etc/hosts");
  tree.put("/system/etc/hosts", "x\n");
  tree.link("../var/data", "/etc/data");
  tree.put("/var/data", "x\n");
  EXPECT_THAT(
      write({create("/var/out/shadow", "x"), create("/var/up", "x"), create("/var/dangling", "x"),
             append("/etc/hosts", "x"), append("/etc/data", "x"),
             append("/system/etc/hosts", "x")}),
      ElementsAre(
          HasSubstr("[0] (/var/out/shadow): a symbolic link in the path leads outside"),
          HasSubstr("[1] (/var/up): a symbolic link in the path leads outside"),
          HasSubstr("[2] (/var/dangling): it is a dangling symbolic link"),
          HasSubstr("[3] (/etc/hosts): /system/etc/hosts is reserved for the system"),
          HasSubstr("[4] (/etc/data): it is a symbolic link to /var/data; use that path"),
          HasSubstr("[5] (/system/etc/hosts): /system/etc/hosts is reserved for the system")));
  EXPECT_EQ("root\n", tree.get("/etc/shadow"));
  EXPECT_EQ("(none)", tree.get("/var/nowhere"));
  // A link inside of /var is followed, and stays.
  makeDirectories(tree.path("/var/real"));
  tree.put("/var/real/f", "base");
  tree.link("real", "/var/name");
  EXPECT_THAT(write({append("/var/name/f", "1"), append("/var/real/f", "2")}), IsEmpty());
  EXPECT_EQ("base\n1\n2", tree.get("/var/real/f"));
}

// Catches: a manifest that the kubelet cannot find, or that is in a subfolder, where the kubelet
// does not look.
TEST_F(UserFilesTest, StaticPodsAreWrittenInPlace) {
  EXPECT_THAT(
      write({create("/etc/kubernetes/manifests/pod.yaml", "kind: Pod\n", 0600),
             create("/etc/kubernetes/manifests/more/pod.yaml", "x")}),
      ElementsAre(HasSubstr(
          "[1] (/etc/kubernetes/manifests/more/pod.yaml): a file can be created only below /var")));
  EXPECT_EQ("kind: Pod\n", tree.get("/etc/kubernetes/manifests/pod.yaml"));
  EXPECT_EQ(0600u, tree.mode("/etc/kubernetes/manifests/pod.yaml"));
  EXPECT_EQ(0u, mounts.calls);
  for (int boot = 0; boot < 2; ++boot)
    EXPECT_THAT(write({append("/etc/kubernetes/manifests/pod.yaml", "spec: {}\n")}), IsEmpty());
  EXPECT_EQ("kind: Pod\n\nspec: {}\n", tree.get("/etc/kubernetes/manifests/pod.yaml"));
}

// Catches: the user's part of containerd's configuration, taken for a file of the image, which
// lacks it.
TEST_F(UserFilesTest, ContainerdsPartIsNoFile) {
  EXPECT_THAT(write({create("/etc/cri/conf.d/20-customization.part", "[metrics]\n"),
                     append("/etc/cri/conf.d/20-customization.part", "x"), create("/var/a", "x")}),
              IsEmpty());
  EXPECT_EQ("(none)", tree.get("/var/etc/cri/conf.d/20-customization.part"));
  EXPECT_EQ("x", tree.get("/var/a"));
}

// Catches: a file that only the boot finds to be missing; an entry that needs no file of the image,
// and is refused; a check that changes something.
TEST_F(UserFilesTest, FilesThatTheImageLacksAreFoundBeforeTheBoot) {
  tree.put("/etc/nfsmount.conf", "#\n");
  tree.link("nfsmount.conf", "/etc/second-name");
  tree.link("/system/etc/hosts", "/etc/hosts");
  tree.put("/system/etc/hosts", "x\n");
  UserFile files[] = {overwrite("/etc/nfsmount.conf", "x"),
                      append("/etc/second-name", "x"),
                      overwrite("/etc/lvm/lvm.conf", "x"),
                      append("/etc/ssl/certs", "x"),
                      overwrite("/var/later", "x"),
                      overwrite("/etc/kubernetes/manifests/pod.yaml", "x"),
                      create("/etc/cri/conf.d/20-customization.part", "x"),
                      overwrite("/etc/hosts", "x"),
                      create("/etc/new", "x")};
  std::vector<std::string> found;
  for (auto& file : missingImageFiles(tree.root, kj::arrayPtr(files, kj::size(files)))) {
    found.push_back(kj::str(file.entry, " ", file.path, ": ", file.problem).cStr());
  }
  EXPECT_THAT(found,
              ElementsAre("2 /etc/lvm/lvm.conf: no such file in the system",
                          "3 /etc/ssl/certs: it is a directory",
                          "7 /etc/hosts: /system/etc/hosts is reserved for the system while it "
                          "runs"));
  EXPECT_EQ("(none)", tree.get("/var/etc"));
  EXPECT_EQ("(none)", tree.get("/etc/kubernetes/manifests"));
  EXPECT_EQ(0u, mounts.calls);
}

// Catches: a problem of the boot that is lost when the brain crashes, or that stays after the boot
// that had it.
TEST(UserFileProblems, OutliveTheBrain) {
  kj::EventLoop loop;
  kj::WaitScope scope(loop);
  FakeMachine machine;
  {
    FakeProcess1 process1(machine);
    UserFileProblems problems(process1);
    EXPECT_EQ(0u, problems.list().size());
    EXPECT_FALSE(problems.known());
    kj::Vector<kj::String> list;
    list.add(kj::str("machine.files[0] (/etc/x): no such file in the system"));
    problems.set(kj::mv(list)).wait(scope);
    EXPECT_EQ(1u, problems.list().size());
  }
  FakeProcess1 process1(machine);
  UserFileProblems problems(process1);
  EXPECT_TRUE(problems.known());
  ASSERT_EQ(1u, problems.list().size());
  EXPECT_EQ("machine.files[0] (/etc/x): no such file in the system", problems.list()[0]);
  problems.set({}).wait(scope);
  EXPECT_EQ(0u, problems.list().size());
}

// Catches: an append that takes a daemon's file away from its owner.
TEST_F(UserFilesTest, AppendKeepsTheOwner) {
  tree.put("/var/f", "base\n");
  ASSERT_EQ(0, chown(tree.path("/var/f").cStr(), 77, 78));
  EXPECT_THAT(write({append("/var/f", "x", 04755)}), IsEmpty());
  struct stat found;
  ASSERT_EQ(0, stat(tree.path("/var/f").cStr(), &found));
  EXPECT_EQ(77u, found.st_uid);
  EXPECT_EQ(78u, found.st_gid);
  EXPECT_EQ(04755u, found.st_mode & 07777);
}

// Catches: a block that matches in the middle of a word, the first of two, the shorter of two.
TEST(AppendedBlock, IsTakenOutWhole) {
  auto without = [](kj::StringPtr text, std::initializer_list<kj::StringPtr> list) {
    kj::Vector<Block> blocks;
    for (auto b : list) blocks.add(kj::heapArray(b.asArray()));
    auto rest = withoutBlock(text, blocks);
    return std::string(rest.begin(), rest.size());
  };
  EXPECT_EQ("a", without("a\nb", {"\nb"}));
  EXPECT_EQ("a\nbc", without("a\nbc", {"\nb"}));
  EXPECT_EQ("a\nb\nx", without("a\nb\nx\nb", {"\nb"}));
  EXPECT_EQ("a", without("a\nb\nc", {"\nb", "\nb\nc"}));
  EXPECT_EQ("a\nx", without("a\nb\nx", {"\nb", "\nb\nc"}));
  EXPECT_EQ("a", without("a", {"", "\nlonger than all of it"}));
  EXPECT_EQ("", without("", {"\nb"}));
}

}  // namespace
}  // namespace talos::machined
