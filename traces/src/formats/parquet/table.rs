//! Tables of results as Parquet: named columns of unsigned 64-bit numbers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::parquet::basic::{Compression, ZstdLevel};
use ::parquet::data_type::Int64Type;
use ::parquet::errors::ParquetError;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::parser::parse_message_type;
use ::parquet::schema::types::Type;

use super::writer::refused;
use crate::error::WriteError;
use crate::whole_file::WholeFile;

/// Rows that are held until they are written.
const ROWS_PER_GROUP: usize = 16_384;

/// Writes a table row by row. Until [`TableWriter::finish`] nothing stands at its path.
pub(crate) struct TableWriter {
    path: PathBuf,
    file: SerializedFileWriter<WholeFile>,
    columns: Vec<Vec<i64>>,
}

impl TableWriter {
    /// Begins a table with these columns.
    pub(crate) fn create(path: &Path, name: &str, columns: &[&str]) -> Result<TableWriter, WriteError> {
        let schema = schema(name, columns).map_err(|error| refused(path, &error))?;
        let level = ZstdLevel::default();
        let properties = WriterProperties::builder()
            .set_created_by(format!("iocast version {}", crate::VERSION))
            .set_compression(Compression::ZSTD(level))
            .build();
        let file = SerializedFileWriter::new(WholeFile::create(path)?, Arc::new(schema), Arc::new(properties))
            .map_err(|error| refused(path, &error))?;
        Ok(TableWriter { path: path.to_owned(), file, columns: vec![Vec::new(); columns.len()] })
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If it has another number of values than there are columns.
    pub(crate) fn row(&mut self, values: &[u64]) -> Result<(), WriteError> {
        assert_eq!(values.len(), self.columns.len(), "a row has a value for every column");
        for (column, value) in self.columns.iter_mut().zip(values) {
            column.push(value.cast_signed());
        }
        if self.columns[0].len() == ROWS_PER_GROUP {
            self.write_group().map_err(|error| refused(&self.path, &error))?;
        }
        Ok(())
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.file.next_row_group()?;
        for values in &mut self.columns {
            let Some(mut writer) = group.next_column()? else {
                return Err(ParquetError::General("fewer columns than the schema has".to_owned()));
            };
            writer.typed::<Int64Type>().write_batch(values, None, None)?;
            writer.close()?;
            values.clear();
        }
        group.close()?;
        Ok(())
    }

    /// Writes the rest and gives the file its name.
    pub(crate) fn finish(mut self) -> Result<(), WriteError> {
        if !self.columns[0].is_empty() {
            self.write_group().map_err(|error| refused(&self.path, &error))?;
        }
        let file = self.file.into_inner().map_err(|error| refused(&self.path, &error))?;
        file.finish()
    }
}

fn schema(name: &str, columns: &[&str]) -> Result<Type, ParquetError> {
    let columns: String =
        columns.iter().map(|column| format!("REQUIRED INT64 {column} (INTEGER(64,false)); ")).collect();
    parse_message_type(&format!("message {name} {{ {columns} }}"))
}
