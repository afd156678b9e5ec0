// Installer images for tests, of the system that was built, with faults.
//
// A fault is a program of the image that is replaced by bad-program.cc, or by itself with another
// text in it. The root is packed directly from the tree of `make image`, without a copy.
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

  // Returns where an image with this fault keeps the original program, for a fault that becomes it.
  static std::string original(const std::string& program);

  // Makes an archive as `make installer-image` does, and removes the previous one. Throws with the
  // output of the program that failed.
  std::string make(const std::string& version, const std::vector<Fault>& faults);
  // Makes an archive whose root image lacks its end; all sums fit the short image.
  std::string withoutItsEnd(const std::string& version);
  // Makes an archive whose system does not know machine.token, by its own list.
  std::string withoutAKey(const std::string& version);
  // Changes a byte in the middle of the archive.
  std::string damaged(const std::string& version);
  // Cuts off the end of the archive.
  std::string cut(const std::string& version);

  // Makes a new key, and returns its public half as PEM.
  std::string makeKey(const std::string& name) const;
  // Writes a signature beside the archive, by the key of this name.
  void sign(const std::string& archive, const std::string& keyName) const;

 private:
  std::string folder;

  std::string pack(const std::string& version);
};

}  // namespace talos
