// export_file.h: a file that is written beside its name and takes it when it is whole.
// Owns: what an export may be written over, the file that is being written, and the moment it gets its name.
// Never: writes over anything but an older export of ours (or an empty file of this user's), or follows a link.
// Threads: one.
#pragma once

#include <string>

#include "cache/file/folder.h"

namespace gqa::cache {

class ExportFile {
 public:
  // Begins an empty file beside the path. Throws Error if the path may not be written, `cache` being the file that is
  // exported.
  ExportFile(const std::string& path, const std::string& cache);
  ~ExportFile();  // removes it, unless it was published
  ExportFile(const ExportFile&) = delete;
  ExportFile& operator=(const ExportFile&) = delete;

  const std::string& part() const { return part_; }
  // Syncs it and gives it its name: `path` holds all of it, or what it held before. Throws Error.
  void publish();

 private:
  void begin();
  void replace_older();

  const std::string given_;
  std::string path_, part_;
  std::optional<FileId> older_;  // what lies under the name and will be replaced
};

}  // namespace gqa::cache
