#include "machined/system/user-files.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <string.h>
#include <unistd.h>

#include <set>
#include <string>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/fill-list.h"
#include "common/base/node-layout.h"
#include "common/memory/zeroize.h"
#include "common/net/text-values.h"
#include "machined/system/appended-text.h"
#include "machined/system/system-tree.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kVar = "/var/"_kj, kEtc = "/etc/"_kj,
                        kManifests = "/etc/kubernetes/manifests/"_kj, kOwn = "/var/system/"_kj,
                        kNotes = "/var/system/appended"_kj;
// Folders of the running machine, which hold nothing of the image.
constexpr kj::StringPtr kMemory[] = {"/dev/"_kj, "/proc/"_kj,   "/run/"_kj,
                                     "/sys/"_kj, "/system/"_kj, "/tmp/"_kj};
constexpr size_t kLargest = 64u << 20;

bool isDirectlyIn(kj::StringPtr path, kj::StringPtr folder) {
  return path.startsWith(folder) && path.slice(folder.size()).findFirst('/') == nullptr;
}

// Returns true for a file that the config may add to /etc, as documents do.
bool isNewInEtc(const UserFile& file) {
  return file.op == config::FileOp::CREATE && file.path.startsWith(kEtc) &&
         !file.path.startsWith("/etc/kubernetes/") && file.path != kContainerdPart;
}

[[noreturn]] void refuse(kj::StringPtr problem) {
  fail(ErrorKind::kFailedPrecondition, problem);
}

struct ImageFile {
  kj::String relative;  // with links followed
  kj::AutoCloseFd fd;   // a descriptor of its place, without access to the content
};
// Finds a file of the image, which the config may change.
ImageFile findImageFile(int root, kj::StringPtr path) {
  auto found = tryOpen(root, path.slice(1), O_PATH, Links::kInRoot);
  if (found == nullptr) fail(ErrorKind::kNotFound, "no such file in the system");
  auto& fd = KJ_ASSERT_NONNULL(found);
  auto relative = relativeTo(root, fd);
  auto target = kj::str("/", relative);
  for (auto memory : kMemory) {
    if (target.startsWith(memory))
      refuse(kj::str(target, " is reserved for the system while it runs"));
  }
  if (target.startsWith(kVar))
    refuse(kj::str("it is a symbolic link to ", target, "; use that path"));
  return ImageFile{kj::mv(relative), kj::mv(fd)};
}

void requireRegular(const struct stat& file) {
  if (S_ISDIR(file.st_mode)) refuse("it is a directory");
  if (!S_ISREG(file.st_mode)) refuse("it is not a regular file");
}

// The place of a file.
struct Place {
  kj::String path;         // target of the config's path, with links followed
  kj::AutoCloseFd folder;  // the file's folder; for the image: without mounts below it
  kj::String name;
  bool inPlace;
  kj::Maybe<struct stat> existing;
};

// The content, mode and base of one file, computed from its entries.
struct DesiredFile {
  kj::Maybe<kj::Array<char>> base;  // nullptr: the file's present content
  kj::Vector<char> appended;
  kj::Maybe<mode_t> mode;  // nullptr: no entry was valid

  kj::Array<char> over(kj::ArrayPtr<const char> start) const {
    kj::Vector<char> whole;
    whole.addAll(start);
    whole.addAll(appended);
    return whole.releaseAsArray();
  }
  DesiredFile() = default;
  DesiredFile(DesiredFile&&) = default;
  ~DesiredFile() noexcept(false) {
    KJ_IF_MAYBE (b, base) zeroize(*b);
    zeroize(appended);
  }
};

class Writer {
 public:
  Writer(kj::StringPtr root, Mounts& mounts, kj::ArrayPtr<const UserFile> files)
      : root(root),
        mounts(mounts),
        files(files),
        rootTree(openTree(root.size() == 0 ? "/"_kj : root)),
        varTree(openTree(kj::str(root, "/var"))) {}

  UserFilesResult run() {
    loadNotes();
    std::set<size_t> done;
    for (auto i : kj::indices(files)) {
      if (done.count(i) > 0 || files[i].path == kContainerdPart) continue;
      attempt(i, [&]() {
        auto place = find(files[i]);
        auto group = entriesFor(place, i);
        done.insert(group.begin(), group.end());
        write(place, desiredFileOf(place, group));
      });
    }
    for (auto& path : notes.files()) {
      if (kept.count(path.cStr()) == 0) takeOut(path);
    }
    return kj::mv(result);
  }

  UserFilesResult runFor(kj::StringPtr path) {
    auto place = find(UserFile(config::FileOp::OVERWRITE, path, "", 0));
    kj::Vector<size_t> group;
    for (auto i : kj::indices(files)) {
      if (files[i].path == path || isAt(files[i], place)) group.add(i);
    }
    if (group.empty()) {
      hide(kj::str(root, place.path));
    } else {
      write(place, desiredFileOf(place, group));
    }
    return kj::mv(result);
  }

 private:
  kj::StringPtr root;
  Mounts& mounts;
  kj::ArrayPtr<const UserFile> files;
  kj::AutoCloseFd rootTree, varTree;
  UserFilesResult result;
  AppendedNotes notes;
  std::set<std::string> kept;  // files whose notes are still needed

  void attempt(size_t entry, kj::FunctionParam<void()> work) {
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { work(); })) {
      auto& origin = files[entry].origin;
      auto key = origin.size() > 0 ? kj::str(origin) : kj::str("machine.files[", entry, "]");
      result.problems.add(kj::str(key, " (", files[entry].path, "): ", messageOf(*e)));
    }
  }

  // --- places ---

  Place find(const UserFile& file) {
    if (!config::isCleanPath(file.path) || file.path.endsWith("/"))
      refuse("not a valid path; use an absolute path of a file without . and ..");
    if (file.path.startsWith(kOwn)) refuse("this directory is reserved for the system");
    if (file.path.startsWith(kVar)) return findInPlace(varTree, kVar, file);
    if (isDirectlyIn(file.path, kManifests)) {
      auto manifests = makeDirectoriesIn(rootTree, "etc/kubernetes/manifests", 0755);
      return findInPlace(manifests, kManifests, file);
    }
    return findInImage(file);
  }

  Place findInPlace(int tree, kj::StringPtr prefix, const UserFile& file) {
    auto relative = kj::str(file.path.slice(prefix.size()));
    auto found = tryOpen(tree, relative, O_PATH, Links::kBeneath);
    if (found == nullptr && file.op != config::FileOp::CREATE)
      fail(ErrorKind::kNotFound, "no such file; use op: create");
    KJ_IF_MAYBE (fd, found) relative = relativeTo(tree, *fd);
    auto parts = split(relative);
    Place place{.path = kj::str(prefix, relative),
                .folder = makeDirectoriesIn(tree, parts.directory, 0755),
                .name = kj::mv(parts.name),
                .inPlace = true,
                .existing = nullptr};
    place.existing = tryStat(place.folder, place.name);
    if (found == nullptr && place.existing != nullptr) refuse("it is a dangling symbolic link");
    return place;
  }

  Place findInImage(const UserFile& file) {
    // A new file of /etc has an empty one in its place (var-directory.h).
    if (file.op == config::FileOp::CREATE && !isNewInEtc(file)) {
      fail(ErrorKind::kInvalidArgument,
           "a file can be created only below /var; use overwrite or append to change a file of the "
           "system");
    }
    auto found = findImageFile(rootTree, file.path);
    auto path = kj::str("/", found.relative);
    auto parts = split(found.relative);
    auto folder = tryOpen(rootTree, parts.directory, O_RDONLY | O_DIRECTORY, Links::kNone);
    auto pristine = mounts.withoutMounts(KJ_REQUIRE_NONNULL(folder));
    auto existing = tryStat(pristine, parts.name);
    return Place{kj::mv(path), kj::mv(pristine), kj::mv(parts.name), false, existing};
  }

  // Returns the entries from `first` on for the same file, under any name.
  kj::Vector<size_t> entriesFor(const Place& place, size_t first) {
    kj::Vector<size_t> group;
    group.add(first);
    for (size_t i = first + 1; i < files.size(); ++i) {
      if (files[i].path == files[first].path || isAt(files[i], place)) group.add(i);
    }
    return group;
  }

  // Returns false for an entry whose file cannot be found, too: it is reported when it is written.
  bool isAt(const UserFile& file, const Place& place) {
    bool same = false;
    auto ignored = kj::runCatchingExceptions([&]() {
      auto op = config::FileOp::OVERWRITE;  // makes nothing
      same = find(UserFile(op, file.path, "", 0)).path == place.path;
    });
    return same;
  }

  // --- content ---

  DesiredFile desiredFileOf(const Place& place, kj::ArrayPtr<const size_t> group) {
    DesiredFile desired;
    for (auto i : group) {
      auto& file = files[i];
      attempt(i, [&]() {
        checkKind(place);
        bool exists = place.existing != nullptr || desired.base != nullptr;
        if (file.op == config::FileOp::CREATE && !place.inPlace && !isNewInEtc(file))
          refuse("a file can be created only below /var");
        if (file.op != config::FileOp::CREATE && !exists)
          fail(ErrorKind::kNotFound, "no such file; use op: create");
        if (file.op == config::FileOp::APPEND) {
          desired.appended.add('\n');
          desired.appended.addAll(file.content);
        } else {
          zeroize(desired.appended);
          desired.appended.clear();
          desired.base = kj::heapArray(file.content.asArray());
        }
        desired.mode = file.mode;
      });
    }
    return desired;
  }

  static void checkKind(const Place& place) {
    KJ_IF_MAYBE (existing, place.existing) requireRegular(*existing);
  }

  static kj::Array<char> contentOf(const Place& place) {
    auto file = tryOpen(place.folder, place.name, O_RDONLY, Links::kNone);
    KJ_IF_MAYBE (fd, file) return readAll(*fd, kLargest);
    return nullptr;
  }

  // --- writing ---

  void write(const Place& place, const DesiredFile& desired) {
    KJ_IF_MAYBE (mode, desired.mode) {
      if (!place.inPlace) {
        writeOver(place, desired, *mode);
      } else {
        KJ_IF_MAYBE (base, desired.base) {
          auto want = desired.over(*base);
          KJ_DEFER(zeroize(want));
          put(place, want, *mode);
          forget(place.path);
        } else {
          append(place, desired, *mode);
        }
      }
    }
  }

  // Replaces the file unless it is already up to date.
  static void put(const Place& place, kj::ArrayPtr<const char> want, mode_t mode) {
    FileAttributes attributes{mode, 0, 0};
    KJ_IF_MAYBE (existing, place.existing) {
      attributes.uid = existing->st_uid;
      attributes.gid = existing->st_gid;
      // Read only if it has the right size, because it may have grown without limit.
      if ((existing->st_mode & 07777) == mode &&
          existing->st_size == static_cast<off_t>(want.size())) {
        auto content = contentOf(place);
        KJ_DEFER(zeroize(content));
        if (content == want) return;
      }
    }
    replaceFile(place.folder, place.name, want, attributes);
  }

  void append(const Place& place, const DesiredFile& desired, mode_t mode) {
    auto current = contentOf(place);
    KJ_DEFER(zeroize(current));
    kj::Vector<Block> blocks;
    KJ_DEFER(for (auto& b : blocks) zeroize(b));
    for (auto& block : notes.of(place.path)) blocks.add(kj::heapArray(block.asPtr()));
    kj::ArrayPtr<const char> appended = desired.appended.asPtr();
    // Text of a run whose notes were lost.
    if (current.size() >= appended.size() &&
        current.slice(current.size() - appended.size(), current.size()) == appended)
      blocks.add(kj::heapArray(appended));
    auto base = withoutBlock(current, blocks);
    auto want = desired.over(base);
    KJ_DEFER(zeroize(want); zeroize(base));
    kept.insert(place.path.cStr());
    if (notes.note(place.path, appended)) saveNotes();
    put(place, want, mode);
    if (notes.of(place.path).size() > 1) {
      notes.replace(place.path, appended);
      saveNotes();
    }
  }

  void writeOver(const Place& place, const DesiredFile& desired, mode_t mode) {
    kj::Array<char> base;
    KJ_IF_MAYBE (b, desired.base) {
      base = kj::heapArray(b->asPtr());
    } else {
      base = contentOf(place);
    }
    auto want = desired.over(base);
    KJ_DEFER(zeroize(want); zeroize(base));
    auto parts = split(place.path.slice(1));
    Place copy{.path = kj::str("/var", place.path),
               .folder = makeDirectoriesIn(varTree, parts.directory, 0755),
               .name = kj::mv(parts.name),
               .inPlace = true,
               .existing = nullptr};
    copy.existing = tryStat(copy.folder, copy.name);
    checkKind(copy);
    put(copy, want, mode);
    show(copy, kj::str(root, place.path));
  }

  // Keeps an existing mount of the same file, which may have readers.
  void show(const Place& copy, kj::StringPtr target) {
    if (mounts.isMountPoint(target)) {
      auto now = KJ_REQUIRE_NONNULL(tryStat(AT_FDCWD, target));
      auto wanted = KJ_REQUIRE_NONNULL(tryStat(copy.folder, copy.name));
      if (now.st_dev == wanted.st_dev && now.st_ino == wanted.st_ino) return;
      mounts.unmount(target);
    }
    mounts.bindReadOnly(kj::str(root, copy.path), target);
  }

  // Shows the image's file again.
  void hide(kj::StringPtr target) {
    if (mounts.isMountPoint(target)) mounts.unmount(target);
  }

  // --- notes ---

  void loadNotes() {
    KJ_IF_MAYBE (e, kj::runCatchingExceptions(
                        [&]() { notes = AppendedNotes::load(kj::str(root, kNotes)); })) {
      result.warnings.add(kj::str(
          messageOf(*e), "; text that was appended to files below /var earlier stays in them"));
    }
  }
  void saveNotes() {
    makeDirectoriesIn(varTree, "system", 0700);
    notes.save(kj::str(root, kNotes));
  }
  void forget(kj::StringPtr path) {
    if (notes.of(path).size() == 0) return;
    notes.replace(path, nullptr);
    saveNotes();
  }

  // Removes the appended text of a file that the config does not append to any more.
  void takeOut(kj::StringPtr path) {
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() {
                   auto place = find(UserFile(config::FileOp::CREATE, path, "", 0));
                   KJ_IF_MAYBE (existing, place.existing) {
                     checkKind(place);
                     auto current = contentOf(place);
                     auto rest = withoutBlock(current, notes.of(path));
                     KJ_DEFER(zeroize(current); zeroize(rest));
                     put(place, rest, existing->st_mode & 07777);
                   }
                   forget(path);
                 })) {
      result.warnings.add(
          kj::str(path, ": cannot remove the text that was appended earlier: ", messageOf(*e)));
    }
  }
};

}  // namespace

UserFile::~UserFile() noexcept(false) {
  zeroize(content);
}

kj::Vector<UserFile> userFiles(config::Machine::Reader machine) {
  kj::Vector<UserFile> files;
  for (auto file : machine.getFiles()) {
    auto path = file.getPath();
    auto& added = files.add(file.getOp(), path, file.getContent(), file.getPermissions());
    if (isNewInEtc(added)) {
      added.origin = kj::str("EtcFileConfig[", path.slice(kEtc.size()), "]");
    }
  }
  for (auto root : machine.getTrustedRoots()) {
    auto& file = files.add(config::FileOp::APPEND, kAuthoritiesBundle, root.getValue(), 0644);
    file.origin = kj::str("TrustedRootsConfig[", root.getKey(), "]");
  }
  return files;
}

kj::Vector<kj::String> newEtcFiles(kj::ArrayPtr<const UserFile> files) {
  kj::Vector<kj::String> paths;
  for (auto& file : files) {
    if (isNewInEtc(file)) paths.add(kj::str(file.path));
  }
  return paths;
}

UserFilesResult writeUserFiles(kj::StringPtr root, Mounts& mounts,
                               kj::ArrayPtr<const UserFile> files) {
  return Writer(root, mounts, files).run();
}

UserFilesResult writeImageFile(kj::StringPtr root, Mounts& mounts, kj::StringPtr path,
                               kj::ArrayPtr<const UserFile> files) {
  return Writer(root, mounts, files).runFor(path);
}

kj::Vector<MissingImageFile> missingImageFiles(kj::StringPtr root,
                                               kj::ArrayPtr<const UserFile> files) {
  kj::Vector<MissingImageFile> missing;
  auto tree = openTree(root.size() == 0 ? "/"_kj : root);
  for (auto i : kj::indices(files)) {
    auto& file = files[i];
    bool ofImage = config::isCleanPath(file.path) && !file.path.startsWith(kVar) &&
                   !isDirectlyIn(file.path, kManifests) && file.path != kContainerdPart;
    if (!ofImage || file.op == config::FileOp::CREATE) continue;
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() {
                   auto found = findImageFile(tree, file.path);
                   struct stat status;
                   KJ_SYSCALL(fstat(found.fd, &status));
                   requireRegular(status);
                 })) {
      missing.add(MissingImageFile{i, kj::str(file.path), messageOf(*e)});
    }
  }
  return missing;
}

UserFileProblems::UserFileProblems(Process1& process1) : held(process1, "user-files") {
  auto found = held.take([](rpc::HeldTexts::Reader in) {
    kj::Vector<kj::String> texts;
    for (auto text : in.getTexts()) texts.add(kj::str(text));
    return texts;
  });
  isKnown = found != nullptr;
  KJ_IF_MAYBE (texts, found) problems = kj::mv(*texts);
}

kj::Promise<void> UserFileProblems::set(kj::Vector<kj::String> list) {
  problems = kj::mv(list);
  isKnown = true;
  return held.hold([this](rpc::HeldTexts::Builder out) {
    fillTexts(out.initTexts(static_cast<unsigned>(problems.size())), problems);
  });
}

}  // namespace talos::machined
