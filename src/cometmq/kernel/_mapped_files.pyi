from cometmq.kernel.mapped_files import MappedFile as MappedFile
