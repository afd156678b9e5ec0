// Notes of the text that machine.files appended to files below /var, so that it can be found and
// taken out again.
//
// The notes are in one file that is replaced as a whole. A text is noted before it is written to
// its file and forgotten after it was taken out of it; so at any time each text that we wrote is
// noted. The notes hold secrets of the config: root alone may read them.
#pragma once

#include <kj/map.h>
#include <kj/string.h>
#include <kj/vector.h>

namespace talos::machined {

using Block = kj::Array<char>;

// `text` without the block of `blocks` that is in it; the longest one, and the last place of
// several. One counts as found only where it begins with its line break and ends with a line.
kj::Array<char> withoutBlock(kj::ArrayPtr<const char> text, kj::ArrayPtr<const Block> blocks);

class AppendedNotes {
 public:
  // InvalidArgument when it cannot be read.
  static AppendedNotes parse(kj::ArrayPtr<const char> content);
  // Absent: no notes.
  static AppendedNotes load(kj::StringPtr path);
  void save(kj::StringPtr path) const;

  AppendedNotes() = default;
  AppendedNotes(AppendedNotes&&) = default;
  AppendedNotes& operator=(AppendedNotes&&) = default;
  ~AppendedNotes() noexcept(false);

  kj::ArrayPtr<const Block> of(kj::StringPtr file) const;
  // Returns whether that is news.
  bool note(kj::StringPtr file, kj::ArrayPtr<const char> block);
  void replace(kj::StringPtr file, kj::Maybe<kj::ArrayPtr<const char>> block);
  kj::Vector<kj::String> files() const;

 private:
  kj::TreeMap<kj::String, kj::Vector<Block>> blocks;
};

}  // namespace talos::machined
