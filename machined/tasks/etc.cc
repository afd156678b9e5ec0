#include "machined/tasks/etc.h"

#include <ctype.h>
#include <errno.h>
#include <kj/debug.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "common/error.h"
#include "common/file.h"

namespace talos::machined {

kj::String hostsFile(kj::StringPtr hostname, kj::StringPtr domainname) {
  auto names = hostname == nullptr     ? kj::str("localhost")
               : domainname == nullptr ? kj::str(hostname)
                                       : kj::str(hostname, ".", domainname, " ", hostname);
  return kj::str("127.0.0.1 localhost\n127.0.1.1 ", names,
                 "\n::1 localhost ip6-localhost ip6-loopback\nff02::1 ip6-allnodes\n"
                 "ff02::2 ip6-allrouters\n");
}

kj::String resolvFile(kj::ArrayPtr<const kj::String> servers) {
  return kj::strArray(KJ_MAP(s, servers) { return kj::str("nameserver ", s, "\n"); }, "");
}

kj::String osReleaseFile(kj::StringPtr name, kj::StringPtr tag, kj::StringPtr sha) {
  auto version = tag == nullptr || tag == "none" ? sha : tag;
  auto id = kj::str(name);
  for (char& c : id) c = tolower(c);
  return kj::str("NAME=\"", name, "\"\nID=", id, "\nVERSION_ID=", version, "\nPRETTY_NAME=\"", name,
                 " (", version, ")\"\n");
}

void setupSystemDirectory(kj::StringPtr root) {
  for (auto name : {"etc"_kj, "run"_kj, "var"_kj, "state"_kj}) {
    auto path = kj::str(root, "/system/", name);
    mode_t mode = name == "etc" ? 0755 : 0700;
    makeDirectories(path, mode);
    KJ_SYSCALL(chmod(path.cStr(), mode), path);
  }
}

bool placeEtcFile(kj::StringPtr root, kj::StringPtr name, kj::StringPtr content) {
  auto source = kj::str(root, "/system/etc/", name);
  auto target = kj::str(root, "/etc/", name);
  struct stat before, after;
  bool bound = stat(source.cStr(), &before) == 0 && stat(target.cStr(), &after) == 0 &&
               before.st_dev == after.st_dev && before.st_ino == after.st_ino;
  writeFileAtomically(source, content.asArray(), 0644);
  if (stat(target.cStr(), &after) != 0) return false;
  // The rename made another file of it: what is bound is the old one.
  if (bound) umount2(target.cStr(), MNT_DETACH);
  KJ_SYSCALL(mount(source.cStr(), target.cStr(), nullptr, MS_BIND, nullptr), source, target);
  return true;
}

}  // namespace talos::machined
