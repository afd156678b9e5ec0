// Installer images for tests, of the system that was built, with faults.
//
// A fault is a program of the image that is replaced by bad-program.cc, or by itself with another
// text in it. The root is packed from the tree of `make image` as it is, without a copy of that.
#pragma once

#include <string>
#include <vector>

namespace talos {

struct Fault {
  std::string program;  // "usr/bin/apid"
  std::string kind;     // what bad-program.cc does, or "patch OLD NEW", two texts of one length
};

class SystemImages {
 public:
  explicit SystemImages(std::string folder) : folder(std::move(folder)) {}

  // The program itself, as an image with this fault has it elsewhere: for a fault that becomes it.
  static std::string original(const std::string& program);

  // An archive, as `make installer-image` makes it. Throws with the output of what failed. The one
  // before is removed.
  std::string make(const std::string& version, const std::vector<Fault>& faults);
  // The root image lacks its end, and all sums are of that.
  std::string withoutItsEnd(const std::string& version);
  // Its system does not know machine.token, by its own list.
  std::string withoutAKey(const std::string& version);
  // A byte in the middle of the archive is another one.
  std::string damaged(const std::string& version);
  // The archive lacks its end.
  std::string cut(const std::string& version);

  // A new key, and its public half as PEM.
  std::string makeKey(const std::string& name) const;
  // Beside the archive, by the key of this name.
  void sign(const std::string& archive, const std::string& keyName) const;

 private:
  std::string folder;

  std::string pack(const std::string& version);
};

}  // namespace talos
