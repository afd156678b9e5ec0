#include "machined/system/etc-files.h"

#include <kj/debug.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "common/base/file.h"

namespace talos::machined {

namespace {

// The config's check lets no blank through, but this file must not depend on the check.
bool isOneField(kj::StringPtr text) {
  for (char c : text) {
    if (static_cast<unsigned char>(c) <= ' ' || c == '#') return false;
  }
  return text.size() > 0;
}

}  // namespace

kj::String hostsFile(kj::StringPtr hostname, kj::StringPtr domainname, kj::StringPtr address,
                     kj::ArrayPtr<const HostLine> more) {
  auto names = hostname == nullptr     ? kj::str("localhost")
               : domainname == nullptr ? kj::str(hostname)
                                       : kj::str(hostname, ".", domainname, " ", hostname);
  auto lines = kj::str();
  for (auto& line : more) {
    bool good = isOneField(line.address) && !line.names.empty();
    for (auto& name : line.names) good = good && isOneField(name);
    if (good) lines = kj::str(lines, line.address, " ", kj::strArray(line.names, " "), "\n");
  }
  return kj::str("127.0.0.1 localhost\n", address == nullptr ? "127.0.1.1"_kj : address, " ", names,
                 "\n::1 localhost ip6-localhost ip6-loopback\nff02::1 ip6-allnodes\n"
                 "ff02::2 ip6-allrouters\n",
                 lines);
}

void setupSystemDirectory(kj::StringPtr root) {
  for (auto name : {"etc"_kj, "run"_kj, "var"_kj, "state"_kj}) {
    auto path = kj::str(root, "/system/", name);
    mode_t mode = name == "etc" ? 0755 : 0700;
    makeDirectories(path, mode);
    KJ_SYSCALL(chmod(path.cStr(), mode), path);
  }
}

void writeFirstHostsFile(kj::StringPtr root, kj::StringPtr hostname) {
  struct stat there;
  if (stat(kj::str(root, "/system/etc/hosts").cStr(), &there) == 0) return;
  writeEtcFile(root, "hosts", hostsFile(hostname, ""));
}

kj::String kernelHostname() {
  struct utsname names;
  KJ_SYSCALL(uname(&names));
  kj::StringPtr name(names.nodename);
  return kj::str(name == "(none)" ? ""_kj : name);
}

void writeEtcFile(kj::StringPtr root, kj::StringPtr name, kj::StringPtr content) {
  makeDirectories(kj::str(root, "/system/etc"), 0755);
  writeFileAtomically(kj::str(root, "/system/etc/", name), content.asArray(), 0644);
}

}  // namespace talos::machined
