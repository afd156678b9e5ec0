#include "machined/disk/volumes/node-reset.h"

#include <kj/debug.h>
#include <string.h>

#include "common/base/error.h"
#include "common/base/file.h"
#include "common/base/fill-list.h"
#include "common/base/folder.h"
#include "common/text/texts.h"
#include "machined/disk/devices/meta-values.h"
#include "machined/disk/volumes/mount-volume.h"

namespace talos::machined {
namespace {

constexpr kj::StringPtr kReboot = "reboot"_kj, kOff = "off"_kj;
constexpr kj::StringPtr kLabels[] = {"EFI"_kj,  "BIOS"_kj,  "BOOT"_kj,
                                     "META"_kj, "STATE"_kj, "EPHEMERAL"_kj};
constexpr uint32_t kMark = static_cast<uint32_t>(MetaTag::kReset);

void checkLabels(kj::ArrayPtr<const kj::String> labels) {
  for (auto& label : labels) {
    if (contains(kLabels, label)) continue;
    fail(ErrorKind::kInvalidArgument,
         kj::str("\"", label, "\" is not a label of a system partition; use ",
                 kj::strArray(kLabels, ", ")));
  }
}

kj::Vector<kj::String> copyOf(kj::ArrayPtr<const kj::String> texts) {
  kj::Vector<kj::String> result;
  for (auto& text : texts) result.add(kj::str(text));
  return result;
}

void sayForeignMark(kj::Function<void(kj::StringPtr)>& say, kj::StringPtr where) {
  say(kj::str("warning: what ", where, " says of a reset is not valid; ignored"));
}

// --- reset of a disk

class DiskReset final : public Reset {
 public:
  DiskReset(Process1& process1, UvLoop& uv, ReadPool& pool, MetaPartition& meta,
            Installer& installer, kj::Function<void(kj::StringPtr)> say)
      : Reset(process1, kj::mv(say)), uv(uv), pool(pool), meta(meta), installer(installer) {}

  kj::Promise<ResetPlan> plan(kj::Vector<kj::String> labels) override {
    checkLabels(labels);  // at once
    auto devices = co_await uv.blocking([]() { return readBlockDevices(); });
    co_return planReset(devices, labels);
  }

  kj::Promise<kj::Maybe<ResetRequest>> marked() override {
    kj::Maybe<ResetRequest> request;
    co_await meta.read(pool.of(0), kMark)
        .then(
            [&](kj::Vector<MetaValue> values) {
              for (auto& value : values) {
                request = requestOfMark(value.value.asChars());
                if (request == nullptr) sayForeignMark(say, "META");
              }
            },
            [](kj::Exception&& e) {
              auto kind = kindOf(e);
              // The mark or META is missing.
              if (kind == ErrorKind::kNotFound || kind == ErrorKind::kFailedPrecondition) return;
              fail(kind, kj::str("whether a reset is pending is not known: ", messageOf(e),
                                 "; the boot ends here, since a reset that was overlooked would "
                                 "erase the node some day; see the kernel's messages, repair or "
                                 "replace the disk, then reboot"));
            });
    co_return kj::mv(request);
  }

  kj::Promise<void> carryOut(ResetRequest request) override {
    auto devices = co_await uv.blocking([]() { return readBlockDevices(); });
    bool hasMeta = false;
    for (auto& device : devices) hasMeta = hasMeta || device.partitionName == "META";
    if (!hasMeta) co_return;  // it was done, and the kernel knows
    auto disk = kj::str("/dev/", findMeta(devices).disk);
    co_await installer.run(
        [disk = kj::str(disk), request = kj::mv(request)](rpc::InstallRequest::Builder out) {
          auto erase = out.initErase();
          erase.setDisk(disk);
          fillTexts(erase.initLabels(request.labels.size()), request.labels);
        });
    say(kj::str("reset: ", disk, " was erased as asked"));
  }

 protected:
  kj::Promise<void> mark(kj::String text) override {
    return meta.write(pool.of(0), kMark, kj::heapArray(text.asBytes()));
  }
  kj::Promise<void> unmark() override {
    return meta.remove(pool.of(0), kMark).catch_([](kj::Exception&& e) {
      auto kind = kindOf(e);
      if (kind == ErrorKind::kNotFound || kind == ErrorKind::kFailedPrecondition) return;
      kj::throwFatalException(kj::mv(e));
    });
  }

 private:
  UvLoop& uv;
  ReadPool& pool;
  MetaPartition& meta;
  Installer& installer;
};

// --- reset of folders

constexpr kj::StringPtr kMarkFile = "reset"_kj;

class FolderReset final : public Reset {
 public:
  FolderReset(Process1& process1, UvLoop& uv, kj::Function<void(kj::StringPtr)> say,
              kj::StringPtr state, kj::StringPtr var, kj::StringPtr mountinfo)
      : Reset(process1, kj::mv(say)),
        uv(uv),
        state(kj::str(state)),
        var(kj::str(var)),
        mountinfo(kj::str(mountinfo)),
        markPath(kj::str(state, "/", kMarkFile)) {}

  kj::Promise<ResetPlan> plan(kj::Vector<kj::String> labels) override { return foldersOf(labels); }

  kj::Promise<kj::Maybe<ResetRequest>> marked() override {
    kj::Maybe<ResetRequest> request;
    KJ_IF_MAYBE (text, tryReadFile(markPath, 4096)) {
      request = requestOfMark(*text);
      if (request == nullptr) sayForeignMark(say, markPath);
    }
    return kj::mv(request);
  }

  kj::Promise<void> carryOut(ResetRequest request) override {
    auto plan = foldersOf(request.labels);
    auto folders = KJ_MAP(target, plan.targets) {
      return kj::str(target.device);
    };
    co_await uv.blocking([folders = kj::mv(folders), mark = kj::str(markPath)]() {
      for (auto& folder : folders) emptyFolder(folder, mark);
      // The mark must not reappear after a power cut: by then the folders belong to the next owner.
      removeDurably(mark);
    });
    say("reset: the folders of the node were emptied as asked");
  }

 protected:
  kj::Promise<void> mark(kj::String text) override {
    return uv.blocking([path = kj::str(markPath), text = kj::mv(text)]() {
      writeFileAtomically(path, text, 0600);
    });
  }
  kj::Promise<void> unmark() override {
    return uv.blocking([mark = kj::str(markPath)]() { removeDurably(mark); });
  }

 private:
  UvLoop& uv;
  kj::String state, var, mountinfo, markPath;

  ResetPlan foldersOf(kj::ArrayPtr<const kj::String> labels) {
    checkLabels(labels);
    for (auto& label : labels) {
      if (label == "STATE" || label == "EPHEMERAL") continue;
      fail(ErrorKind::kNotFound,
           kj::str("a node in a container has no partition ", label, "; use STATE or EPHEMERAL"));
    }
    auto mounts = readFile(mountinfo);
    if (!isMountPoint(state, mounts)) {
      fail(ErrorKind::kFailedPrecondition,
           kj::str("nothing is mounted at ", state,
                   ", so this node keeps nothing that could be erased"));
    }
    ResetPlan plan;
    auto add = [&](kj::StringPtr label, kj::StringPtr folder) {
      if (labels.size() > 0 && !contains(labels, label)) return;
      if (isMountPoint(folder, mounts))
        plan.targets.add(ResetPlan::Target{kj::str(label), kj::str(folder), 0});
    };
    add("STATE", state);
    add("EPHEMERAL", var);
    return plan;
  }
};

}  // namespace

ResetRequest ResetRequest::clone() const {
  return {copyOf(labels), reboot, graceful};
}

bool erases(const ResetRequest& request, kj::StringPtr label) {
  return request.labels.empty() || contains(request.labels, label);
}

kj::String markOf(const ResetRequest& request) {
  kj::Vector<kj::StringPtr> fields;
  fields.add(request.reboot ? kReboot : kOff);
  for (auto& label : request.labels) fields.add(label);
  return kj::strArray(fields, " ");
}

kj::Maybe<ResetRequest> requestOfMark(kj::ArrayPtr<const char> mark) {
  kj::Vector<kj::String> fields;
  for (size_t begin = 0, i = 0; i <= mark.size(); ++i) {
    if (i < mark.size() && mark[i] != ' ') continue;
    fields.add(kj::heapString(mark.slice(begin, i)));
    begin = i + 1;
  }
  if (fields[0] != kReboot && fields[0] != kOff) return nullptr;
  ResetRequest request;
  request.reboot = fields[0] == kReboot;
  for (auto& field : fields.slice(1, fields.size())) {
    bool known = false;
    for (auto label : kLabels) known = known || field == label;
    if (!known) return nullptr;
    request.labels.add(kj::str(field));
  }
  return kj::mv(request);
}

ResetPlan planReset(kj::ArrayPtr<const BlockDevice> devices,
                    kj::ArrayPtr<const kj::String> labels) {
  checkLabels(labels);
  auto& meta = findMeta(devices);
  ResetPlan plan{kj::str("/dev/", meta.disk), {}};
  for (auto& device : devices) {
    if (device.disk != meta.disk || device.whole) continue;
    if (labels.size() > 0 && !contains(labels, device.partitionName)) continue;
    plan.targets.add(ResetPlan::Target{kj::str(device.partitionName), device.node(), device.bytes});
  }
  for (auto& label : labels) {
    bool found = false;
    for (auto& target : plan.targets) found = found || target.label == label;
    if (!found) fail(ErrorKind::kNotFound, kj::str(plan.disk, " has no partition ", label));
  }
  return plan;
}

kj::Promise<void> Reset::promise(ResetRequest request) {
  co_await plan(copyOf(request.labels));
  if (promised() != nullptr)
    fail(ErrorKind::kFailedPrecondition, "this node is being reset already");
  known = request.clone();  // a second one must not replace it meanwhile
  bool kept = false;
  KJ_DEFER(if (!kept) known = nullptr);
  co_await held.hold([&](rpc::HeldReset::Builder out) {
    out.setGraceful(request.graceful);
    out.setReboot(request.reboot);
    fillTexts(out.initLabels(request.labels.size()), request.labels);
  });
  kj::Maybe<kj::Exception> failure;
  try {
    co_await mark(markOf(request));
  } catch (const kj::Exception& e) {
    failure = kj::cp(e);
  }
  KJ_IF_MAYBE (e, failure) {
    co_await held.drop();
    // A disk that was only slow may have stored the mark.
    kj::Maybe<kj::String> left;
    co_await kj::evalNow([&]() { return unmark(); }).catch_([&](kj::Exception&& u) {
      left = messageOf(u);
    });
    KJ_IF_MAYBE (problem, left) {
      fail(kindOf(*e),
           kj::str(messageOf(*e), "; whether the next boot resets the node is not known (",
                   *problem, "); repeat the reset, or delete its mark from META"));
    }
    kj::throwFatalException(kj::mv(*e));
  }
  kept = true;
}

// The caller gets the error as well, if it is still connected.
void Reset::taskFailed(kj::Exception&& e) {
  say(kj::str("warning: a reset was asked for and is not done: ", messageOf(e)));
}

kj::Promise<void> Reset::promiseAndBegin(ResetRequest request, Step prepare, Step begin,
                                         kj::Function<void()> undo) {
  co_await plan(copyOf(request.labels));
  if (accepting || promised() != nullptr) {
    fail(ErrorKind::kFailedPrecondition, "this node is being reset already");
  }
  accepting = true;
  KJ_DEFER(accepting = false);
  // promise() checks again: leaving etcd may have taken minutes.
  co_await kj::evalNow([&]() {
    return prepare();
  }).then([&]() {
      return promise(kj::mv(request));
    }).catch_([&](kj::Exception&& e) {
    undo();
    kj::throwFatalException(kj::mv(e));
  });
  co_await begin();
}

kj::Promise<void> Reset::accept(ResetRequest request, Step prepare, Step begin,
                                kj::Function<void()> undo) {
  auto work = promiseAndBegin(kj::mv(request), kj::mv(prepare), kj::mv(begin), kj::mv(undo)).fork();
  tasks.add(work.addBranch());
  return work.addBranch();
}

kj::Promise<void> Reset::carryOutPromised() {
  auto wanted = promised();
  KJ_IF_MAYBE (request, wanted) {
    // If META, or the folder, is missing, the reset continues without a mark.
    auto marking = kj::evalNow([&]() { return mark(markOf(*request)); });
    co_await marking.catch_([](kj::Exception&& e) {
      if (kindOf(e) != ErrorKind::kFailedPrecondition) kj::throwFatalException(kj::mv(e));
    });
    co_await carryOut(kj::mv(*request));
  }
}

kj::Promise<kj::Maybe<bool>> Reset::finishMarked(kj::Function<void()> begins) {
  auto found = co_await marked();
  KJ_IF_MAYBE (request, found) {
    begins();
    bool reboot = request->reboot;
    co_await carryOut(kj::mv(*request));
    co_return reboot;
  }
  co_return nullptr;
}

kj::Maybe<ResetRequest> Reset::promised() {
  if (!asked) {
    asked = true;
    known = held.take([](rpc::HeldReset::Reader in) {
      ResetRequest request;
      request.graceful = in.getGraceful();
      request.reboot = in.getReboot();
      for (auto label : in.getLabels()) request.labels.add(kj::str(label));
      return request;
    });
  }
  return known.map([](const ResetRequest& request) { return request.clone(); });
}

kj::Own<Reset> resetOfDisk(Process1& process1, UvLoop& uv, ReadPool& pool, MetaPartition& meta,
                           Installer& installer, kj::Function<void(kj::StringPtr)> say) {
  return kj::heap<DiskReset>(process1, uv, pool, meta, installer, kj::mv(say));
}

kj::Own<Reset> resetOfFolders(Process1& process1, UvLoop& uv, kj::Function<void(kj::StringPtr)> say,
                              kj::StringPtr state, kj::StringPtr var, kj::StringPtr mountinfo) {
  return kj::heap<FolderReset>(process1, uv, kj::mv(say), state, var, mountinfo);
}

}  // namespace talos::machined
